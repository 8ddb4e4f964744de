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
    const LinearRow decoded(x, weight, row); // once for all tokens
    for (uint64_t t = 0; t < tokens; ++t)
      result[t * rows + row] = rowDot(x, t * groups + group, decoded);
  }
}

} // namespace ds4::ref
