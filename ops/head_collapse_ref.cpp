// head_collapse_ref.cpp - oracle of ds4.head_collapse.
#include "ops/Reference.h"
#include "ops/prelude.h"

#include <cassert>

namespace ds4::ref {

void headCollapse(const HcPreParams &params, Floats streams, const Weight &fn,
                  Floats scale, Floats base, std::span<float> result) {
  const uint64_t m = params.streams, hidden = params.hidden;
  const uint64_t flat = m * hidden, rows = streams.size() / flat;
  assert(fn.rows() == m && fn.columns == flat &&
         result.size() == rows * hidden);
  for (uint64_t t = 0; t < rows; ++t) {
    const Floats f = streams.subspan(t * flat, flat);
    const float mean = stridedDot(f, f) / static_cast<float>(flat);
    const float r = 1.0f / sqrt_f32(mean + params.eps);
    std::vector<float> g;
    for (uint64_t i = 0; i < m; ++i) {
      const float mix = stridedDot(weightRow(fn, i), f) * r;
      g.push_back(sigmoid_f32(fma_f32(mix, scale[0], base[i])) + params.hcEps);
    }
    mixStreams(f, g, result.subspan(t * hidden, hidden));
  }
}

} // namespace ds4::ref
