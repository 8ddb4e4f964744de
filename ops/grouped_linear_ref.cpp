// grouped_linear_ref.cpp - oracle of ds4.grouped_linear; one group is a linear.
#include "ops/Reference.h"

#include <cassert>

namespace ds4::ref {

void groupedLinear(uint64_t groups, const Act &x, const Weight &weight,
                   std::span<float> result) {
  const uint64_t rows = weight.rows(), tokens = x.vectors() / groups;
  const uint64_t perGroup = rows / groups;
  assert(rows % groups == 0 && result.size() == tokens * rows);
  for (uint64_t row = 0; row < rows; ++row) {
    const uint64_t group = row / perGroup;
    if (x.q8) {
      for (uint64_t t = 0; t < tokens; ++t)
        result[t * rows + row] = rowDot(x, t * groups + group, weight, row);
      continue;
    }
    // rowDot with the row decoded once for all tokens.
    const std::vector<float> values = weightRow(weight, row);
    for (uint64_t t = 0; t < tokens; ++t)
      result[t * rows + row] = stridedDot(
          values, x.values.subspan((t * groups + group) * x.width, x.width));
  }
}

} // namespace ds4::ref
