// hc_post_ref.cpp - oracle of ds4.hc_post.
#include "ops/Reference.h"
#include "ops/prelude.h"

#include <cassert>

namespace ds4::ref {

void hcPost(uint64_t streamCount, uint64_t hidden, Floats y, Floats streams,
            Floats post, Floats comb, std::span<float> result) {
  const uint64_t m = streamCount, tokens = y.size() / hidden;
  assert(result.size() == tokens * m * hidden);
  for (uint64_t t = 0; t < tokens; ++t)
    for (uint64_t k = 0; k < m; ++k)
      for (uint64_t e = 0; e < hidden; ++e) {
        float sum = post[t * m + k] * y[t * hidden + e];
        for (uint64_t j = 0; j < m; ++j)
          sum = fma_f32(comb[(t * m + j) * m + k],
                        streams[(t * m + j) * hidden + e], sum);
        result[(t * m + k) * hidden + e] = sum;
      }
}

} // namespace ds4::ref
