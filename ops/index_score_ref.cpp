// index_score_ref.cpp - oracle of ds4.index_score.
#include "ops/Reference.h"
#include "ops/prelude.h"

#include <cassert>

namespace ds4::ref {

void indexScore(const IndexScoreParams &params, const Step &step, Floats q,
                Floats weights, const State &keys, std::span<float> result) {
  const uint64_t heads = params.heads, width = params.width;
  const uint64_t tokens = step.count;
  assert(q.size() == tokens * heads * width && keys.width == width &&
         result.size() == tokens * keys.rows);
  for (uint64_t t = 0; t < tokens; ++t) {
    const uint64_t visible = visibleRows(step.start + t, params.ratio);
    if (visible <= params.topK)
      continue;
    for (uint64_t w = 0; w < visible; ++w) {
      const std::vector<float> key = keys.read(w);
      float score = 0;
      for (uint64_t h = 0; h < heads; ++h) {
        const float dot =
            segmentedDot(q.subspan((t * heads + h) * width, width), key);
        score = fma_f32(weights[t * heads + h] * params.scale,
                        dot < 0.0f ? 0.0f : dot, score); // keeps a NaN
      }
      result[t * keys.rows + w] = score;
    }
  }
}

} // namespace ds4::ref
