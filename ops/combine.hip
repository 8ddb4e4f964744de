// combine.hip - weighted experts in selection order, the shared expert last. A
// thread does an element.
//
//   result = sum_i weights_i y_i + shared, ascending i
//
// | constant | |
// |---|---|
// | kUsed, kHidden | k, D |

#include "elements.h"

DS4_DEVICE void run(u32 block, u32 row, const float *y, const float *weights,
                    const float *shared, float *result, const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  y += static_cast<u64>(row) * kUsed * kHidden;
  weights += row * kUsed;
  const u64 first = static_cast<u64>(row) * kHidden;
  for (u32 e = tile_begin(block); e < tile_end(block, kHidden); e += kThreads) {
    float sum = weights[0] * y[e];
    for (u32 i = 1; i < kUsed; ++i)
      sum = fma_f32(weights[i], y[i * kHidden + e], sum);
    result[first + e] = sum + shared[first + e];
  }
}
