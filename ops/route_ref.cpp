// route_ref.cpp - oracle of ds4.route, and what ds4.hash_route shares with it.
#include "ops/Reference.h"
#include "ops/prelude.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace ds4::ref {

std::optional<std::vector<float>> routerScores(Floats logits) {
  std::vector<float> scores;
  for (float logit : logits) {
    if (std::isnan(logit))
      return std::nullopt;
    scores.push_back(sqrt_f32(softplus_f32(logit)));
  }
  return scores;
}

void chosenWeights(Floats scores, Ints chosen, float scale,
                   std::span<float> weights) {
  float sum = 0;
  for (int32_t expert : chosen)
    sum += scores[expert];
  const float floored = sum > 0x1p-14f ? sum : 0x1p-14f;
  for (uint64_t i = 0; i < chosen.size(); ++i)
    weights[i] = scores[chosen[i]] / floored * scale;
}

NanRow route(uint64_t k, Floats logits, Floats bias, float scale,
             std::span<int32_t> experts, std::span<float> weights) {
  const uint64_t count = bias.size(), tokens = logits.size() / count;
  assert(experts.size() == tokens * k && weights.size() == tokens * k);
  for (uint64_t t = 0; t < tokens; ++t) {
    const auto s = routerScores(logits.subspan(t * count, count));
    if (!s)
      return t;
    std::vector<float> biased;
    for (uint64_t e = 0; e < count; ++e)
      biased.push_back((*s)[e] + bias[e]);
    std::vector<int32_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    // Stable: of equal scores the lower expert stays first.
    std::ranges::stable_sort(
        order, [&](int32_t a, int32_t b) { return biased[a] > biased[b]; });
    order.resize(k);
    std::ranges::copy(order, experts.begin() + t * k);
    chosenWeights(*s, order, scale, weights.subspan(t * k, k));
  }
  return std::nullopt;
}

} // namespace ds4::ref
