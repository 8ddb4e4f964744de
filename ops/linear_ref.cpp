// linear_ref.cpp - oracle of ds4.linear, and the dot product of one row that
// every linear shares.
#include "ops/Reference.h"
#include "ops/prelude.h"

#include <array>
#include <cassert>

namespace ds4::ref {

/// Segmented order over blocks of 32.
static float quantisedDot(const Q8 &x, uint64_t vector, const Weight &weight,
                          uint64_t row) {
  const uint64_t blocks = x.width / 32;
  const uint8_t *books = nullptr;
  if (weightFormatInfo(weight.format).bookLevels)
    books = weight.int8Books.data() +
            weight.expertOf(row) * bookBytes(weight.format, /*int8=*/true);
  std::array<float, 8> segment{};
  for (uint64_t s = 0; s < 8; ++s)
    for (uint64_t b = segmentBegin(s, blocks); b < segmentBegin(s + 1, blocks);
         ++b)
      segment[s] =
          blockDot(weight.format, weight.row(row), b, x.codes(vector) + 32 * b,
                   x.scale(vector, b), segment[s], books);
  return tree8(segment);
}

float rowDot(const Act &x, uint64_t vector, const Weight &weight,
             uint64_t row) {
  assert(x.width == weight.columns);
  if (x.q8)
    return quantisedDot(*x.q8, vector, weight, row);
  return stridedDot(weightRow(weight, row),
                    x.values.subspan(vector * x.width, x.width));
}

void linear(const Act &x, const Weight &weight, std::span<float> result) {
  groupedLinear(1, x, weight, result);
}

} // namespace ds4::ref
