// linear_ref.cpp - oracle of ds4.linear, and what every linear shares: the dot
// product of one row, and the rows of chosen experts.
#include "ops/Reference.h"
#include "ops/prelude.h"

#include <array>
#include <cassert>
#include <cstring>
#include <map>

namespace ds4::ref {

/// Segmented order over blocks of 32.
static float quantisedDot(const Q8 &x, uint64_t vector,
                          const std::vector<WeightBlock> &row) {
  const uint64_t blocks = row.size();
  std::array<float, 8> segment{};
  for (uint64_t s = 0; s < 8; ++s)
    for (uint64_t b = segmentBegin(s, blocks); b < segmentBegin(s + 1, blocks);
         ++b)
      segment[s] = blockDot(row[b], x.codes(vector) + 32 * b,
                            x.scale(vector, b), segment[s]);
  return tree8(segment);
}

LinearRow::LinearRow(const Act &x, const Weight &weight, uint64_t row) {
  assert(x.width == weight.columns);
  if (!x.q8) {
    values = weightRow(weight, row);
    return;
  }
  const uint8_t *books = nullptr;
  if (weightFormatInfo(weight.format).bookLevels)
    books = weight.int8Books.data() +
            weight.expertOf(row) * bookBytes(weight.format, /*int8=*/true);
  if (books) // what is behind the first book
    std::memcpy(&productScale,
                books + weightFormatInfo(weight.format).bookLevels, 4);
  for (uint64_t b = 0; b < x.width / 32; ++b)
    blocks.push_back(weightBlock(weight.format, weight.row(row), b, books));
}

float rowDot(const Act &x, uint64_t vector, const LinearRow &row) {
  if (x.q8)
    return quantisedDot(*x.q8, vector, row.blocks) * row.productScale;
  return stridedDot(row.values, x.values.subspan(vector * x.width, x.width));
}

void expertLinear(const Act &x, uint64_t used, Ints experts,
                  const Weight &weight, std::span<float> result) {
  const uint64_t rows = weight.rowsPerExpert;
  assert(experts.size() == x.vectors() * used &&
         result.size() == experts.size() * rows);
  // An expert at a time, so that its rows are decoded once for all tokens.
  std::map<int32_t, std::vector<uint64_t>> choices;
  for (uint64_t c = 0; c < experts.size(); ++c)
    choices[experts[c]].push_back(c);
  for (const auto &[expert, chosen] : choices)
    for (uint64_t f = 0; f < rows; ++f) {
      const LinearRow row(x, weight, static_cast<uint64_t>(expert) * rows + f);
      for (uint64_t c : chosen)
        result[c * rows + f] = rowDot(x, c / used, row);
    }
}

void linear(const Act &x, const Weight &weight, std::span<float> result) {
  groupedLinear(1, x, weight, result);
}

} // namespace ds4::ref
