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
  // Loads of a batch before its stores, so that they are on their way together.
  constexpr u32 kBatch = 4;
  const u32 end = tile_end(block, kHidden);
  for (u32 e = tile_begin(block); e < end; e += kBatch * kThreads) {
    float sums[kBatch];
    DS4_REGISTERS
    for (u32 b = 0; b < kBatch; ++b)
      if (const u32 at = e + b * kThreads; at < end) {
        float sum = weights[0] * y[at];
        for (u32 i = 1; i < kUsed; ++i)
          sum = fma_f32(weights[i], y[i * kHidden + at], sum);
        sums[b] = sum + shared[first + at];
      }
    DS4_REGISTERS
    for (u32 b = 0; b < kBatch; ++b)
      if (const u32 at = e + b * kThreads; at < end)
        result[first + at] = sums[b];
  }
}
