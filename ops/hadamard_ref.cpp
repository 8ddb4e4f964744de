// hadamard_ref.cpp - oracle of ds4.hadamard.
#include "ops/Reference.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace ds4::ref {

void hadamard(uint64_t width, Floats x, std::span<float> result) {
  assert(x.size() == result.size() && x.size() % width == 0);
  const float norm =
      static_cast<float>(1.0 / std::sqrt(static_cast<double>(width)));
  for (uint64_t v = 0; v < x.size(); v += width) {
    const std::span<float> out = result.subspan(v, width);
    std::ranges::copy(x.subspan(v, width), out.begin());
    for (uint64_t s = 1; s < width; s *= 2)
      for (uint64_t i = 0; i < width; ++i) {
        if (i & s)
          continue;
        const float a = out[i], b = out[i + s];
        out[i] = a + b;
        out[i + s] = a - b;
      }
    for (float &value : out)
      value *= norm;
  }
}

} // namespace ds4::ref
