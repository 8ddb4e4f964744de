// rms_norm_ref.cpp - oracle of ds4.rms_norm.
#include "ops/Reference.h"
#include "ops/prelude.h"

#include <cassert>

namespace ds4::ref {

void rmsNorm(uint64_t width, Floats x, Floats weight, float eps,
             std::span<float> result) {
  assert(x.size() == result.size() && x.size() % width == 0);
  for (uint64_t v = 0; v < x.size(); v += width) {
    const Floats in = x.subspan(v, width);
    const float mean = stridedDot(in, in) / static_cast<float>(width);
    const float r = 1.0f / sqrt_f32(mean + eps);
    for (uint64_t i = 0; i < width; ++i) {
      const float scaled = in[i] * r;
      result[v + i] = weight.empty() ? scaled : scaled * weight[i];
    }
  }
}

} // namespace ds4::ref
