// simulate_ref.cpp - oracle of ds4.simulate.
#include "ops/Reference.h"
#include "ops/prelude.h"

#include <algorithm>
#include <cassert>

namespace ds4::ref {

void simulate(SimulateMode mode, uint64_t vectorWidth, uint64_t width, Floats x,
              std::span<float> result) {
  const uint64_t block = mode == SimulateMode::fp8 ? 64 : 32;
  assert(x.size() == result.size() && width % block == 0 &&
         width <= vectorWidth);
  std::ranges::copy(x, result.begin());
  for (uint64_t v = 0; v < x.size(); v += vectorWidth)
    for (uint64_t b = 0; b < width; b += block) {
      const std::span<float> values = result.subspan(v + b, block);
      float amax = 0;
      for (float value : values)
        amax = max_abs(amax, value);
      const uint32_t e =
          mode == SimulateMode::fp8 ? fp8_exponent(amax) : fp4_exponent(amax);
      for (float &value : values)
        value = mode == SimulateMode::fp8 ? fp8_simulate(value, e)
                                          : fp4_simulate(value, e);
    }
}

} // namespace ds4::ref
