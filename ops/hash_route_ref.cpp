// hash_route_ref.cpp - oracle of ds4.hash_route.
#include "ops/Reference.h"

#include <algorithm>
#include <cassert>

namespace ds4::ref {

NanRow hashRoute(uint64_t expertCount, uint64_t k, uint64_t n, Floats logits,
                 Ints tokens, Ints table, float scale,
                 std::span<int32_t> experts, std::span<float> weights) {
  assert(logits.size() == tokens.size() * expertCount &&
         experts.size() == tokens.size() * k && k <= n);
  for (uint64_t t = 0; t < tokens.size(); ++t) {
    const auto scores =
        routerScores(logits.subspan(t * expertCount, expertCount));
    if (!scores)
      return t;
    const std::vector<float> &s = *scores;
    const Ints row = table.subspan(static_cast<uint64_t>(tokens[t]) * n, n);
    std::vector<int32_t> chosen(row.begin(), row.end());
    if (k < n)
      std::ranges::sort(chosen, [&](int32_t a, int32_t b) {
        return s[a] > s[b] || (s[a] == s[b] && a < b);
      });
    chosen.resize(k);
    std::ranges::copy(chosen, experts.begin() + t * k);
    chosenWeights(s, chosen, scale, weights.subspan(t * k, k));
  }
  return std::nullopt;
}

} // namespace ds4::ref
