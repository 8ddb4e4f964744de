// linear_rows.hip - y = W x with f32 activations, a row by a block, for GPUs
// and short matrices, whose rows would keep a wave for long. The weights are on
// their way before the activations come.
//
// | constant | |
// |---|---|
// | kIn, kOut | columns, rows |

#include "row_block.h"

DS4_DEVICE void run(u32 block, u32 row, const float *x, const u8 *weight,
                    float *result, const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  float weights[kShare<kIn>], values[kShare<kIn>], sum = 0.0f;
  decode_share<kIn>(weight + static_cast<u64>(block) * row_bytes(kIn), weights);
  wait_for_previous();
  x += static_cast<u64>(row) * kIn;
  DS4_REGISTERS
  for (u32 i = 0; i < kShare<kIn>; ++i)
    values[i] = x[thread_x() + i * kThreads];
  DS4_REGISTERS
  for (u32 i = 0; i < kShare<kIn>; ++i)
    sum = fma_f32(weights[i], values[i], sum);
  sum = sum_by_first_wave(sum);
  if (thread_x() == 0)
    result[static_cast<u64>(row) * kOut + block] = sum;
}
