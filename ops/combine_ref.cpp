// combine_ref.cpp - oracle of ds4.combine.
#include "ops/Reference.h"
#include "ops/prelude.h"

#include <cassert>

namespace ds4::ref {

void combine(uint64_t k, uint64_t hidden, Floats y, Floats weights,
             Floats shared, std::span<float> result) {
  assert(result.size() == shared.size() && y.size() == k * shared.size());
  for (uint64_t t = 0; t < shared.size() / hidden; ++t)
    for (uint64_t e = 0; e < hidden; ++e) {
      float sum = weights[t * k] * y[t * k * hidden + e];
      for (uint64_t i = 1; i < k; ++i)
        sum = fma_f32(weights[t * k + i], y[(t * k + i) * hidden + e], sum);
      result[t * hidden + e] = sum + shared[t * hidden + e];
    }
}

} // namespace ds4::ref
