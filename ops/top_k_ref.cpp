// top_k_ref.cpp - oracle of ds4.top_k.
#include "ops/Reference.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace ds4::ref {

NanRow topK(const Step &step, uint64_t k, uint64_t ratio, uint64_t rows,
            Floats scores, std::span<int32_t> result) {
  const uint64_t tokens = step.count;
  assert(scores.size() == tokens * rows && result.size() == tokens * k);
  for (uint64_t t = 0; t < tokens; ++t) {
    const uint64_t visible = visibleRows(step.start + t, ratio);
    const std::span<int32_t> out = result.subspan(t * k, k);
    std::vector<int32_t> order(visible);
    std::iota(order.begin(), order.end(), 0);
    if (visible > k) {
      const Floats row = scores.subspan(t * rows, visible);
      if (std::ranges::any_of(row, [](float x) { return std::isnan(x); }))
        return t;
      // Stable: of equal scores the lower row stays first.
      std::ranges::stable_sort(
          order, [&](int32_t a, int32_t b) { return row[a] > row[b]; });
      order.resize(k);
      std::ranges::sort(order);
    }
    std::ranges::copy(order, out.begin());
  }
  return std::nullopt;
}

} // namespace ds4::ref
