// rope_ref.cpp - oracle of ds4.rope.
#include "ops/Reference.h"
#include "ops/prelude.h"

#include <cassert>

namespace ds4::ref {

void rope(const Rows &rows, uint64_t width, uint64_t dims, bool inverse,
          Floats x, Floats table, std::span<float> result) {
  if (rows.count() == 0)
    return;
  assert(x.size() == result.size() && x.size() % (rows.count() * width) == 0);
  const uint64_t vectorsPerRow = x.size() / (rows.count() * width);
  for (uint64_t v = 0; v < x.size() / width; ++v) {
    const Floats in = x.subspan(v * width, width);
    const std::span<float> out = result.subspan(v * width, width);
    const Floats angles =
        table.subspan(rows.position(v / vectorsPerRow) * dims, dims);
    for (uint64_t i = 0; i < width - dims; ++i)
      out[i] = in[i];
    for (uint64_t pair = 0; pair < dims / 2; ++pair) {
      const uint64_t at = width - dims + 2 * pair;
      const float a = in[at], b = in[at + 1];
      const float c = angles[2 * pair];
      const float s = inverse ? -angles[2 * pair + 1] : angles[2 * pair + 1];
      out[at] = fma_f32(a, c, -(b * s));
      out[at + 1] = fma_f32(a, s, b * c);
    }
  }
}

} // namespace ds4::ref
