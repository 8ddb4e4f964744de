// route_ref.cpp - oracle of ds4.route.
#include "ops/Reference.h"
#include "ops/prelude.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace ds4::ref {

NanRow route(uint64_t k, Floats logits, Floats bias, float scale,
             std::span<int32_t> experts, std::span<float> weights) {
  const uint64_t count = bias.size(), tokens = logits.size() / count;
  assert(experts.size() == tokens * k && weights.size() == tokens * k);
  for (uint64_t t = 0; t < tokens; ++t) {
    std::vector<float> s, biased;
    for (uint64_t e = 0; e < count; ++e) {
      const float logit = logits[t * count + e];
      if (std::isnan(logit))
        return t;
      s.push_back(sqrt_f32(softplus_f32(logit)));
      biased.push_back(s[e] + bias[e]);
    }
    std::vector<int32_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    // Stable: of equal scores the lower expert stays first.
    std::ranges::stable_sort(
        order, [&](int32_t a, int32_t b) { return biased[a] > biased[b]; });

    float sum = 0;
    for (uint64_t i = 0; i < k; ++i)
      sum += s[order[i]];
    const float floored = sum > 0x1p-14f ? sum : 0x1p-14f;
    for (uint64_t i = 0; i < k; ++i) {
      experts[t * k + i] = order[i];
      weights[t * k + i] = s[order[i]] / floored * scale;
    }
  }
  return std::nullopt;
}

} // namespace ds4::ref
