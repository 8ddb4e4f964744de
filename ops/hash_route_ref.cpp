// hash_route_ref.cpp - oracle of ds4.hash_route.
#include "ops/Reference.h"
#include "ops/prelude.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace ds4::ref {

NanRow hashRoute(uint64_t expertCount, uint64_t k, uint64_t n, Floats logits,
                 Ints tokens, Ints table, float scale,
                 std::span<int32_t> experts, std::span<float> weights) {
  assert(logits.size() == tokens.size() * expertCount &&
         experts.size() == tokens.size() * k && k <= n);
  for (uint64_t t = 0; t < tokens.size(); ++t) {
    std::vector<float> s;
    for (uint64_t e = 0; e < expertCount; ++e) {
      const float logit = logits[t * expertCount + e];
      if (std::isnan(logit))
        return t;
      s.push_back(sqrt_f32(softplus_f32(logit)));
    }
    const Ints row = table.subspan(static_cast<uint64_t>(tokens[t]) * n, n);
    std::vector<int32_t> chosen(row.begin(), row.end());
    if (k < n)
      std::ranges::sort(chosen, [&](int32_t a, int32_t b) {
        return s[a] > s[b] || (s[a] == s[b] && a < b);
      });

    float sum = 0;
    for (uint64_t i = 0; i < k; ++i)
      sum += s[chosen[i]];
    const float floored = sum > 0x1p-14f ? sum : 0x1p-14f;
    for (uint64_t i = 0; i < k; ++i) {
      experts[t * k + i] = chosen[i];
      weights[t * k + i] = s[chosen[i]] / floored * scale;
    }
  }
  return std::nullopt;
}

} // namespace ds4::ref
