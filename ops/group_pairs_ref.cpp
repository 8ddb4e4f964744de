// group_pairs_ref.cpp - oracle of ds4.group_pairs.
#include "ops/Reference.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace ds4::ref {

void groupPairs(Ints experts, std::span<int32_t> result) {
  assert(result.size() == experts.size());
  std::iota(result.begin(), result.end(), 0);
  std::ranges::stable_sort(result, {},
                           [&](int32_t pair) { return experts[pair]; });
}

} // namespace ds4::ref
