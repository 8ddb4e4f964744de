// hc_mix.hip - the dot products of hc_pre.hip, each by a block of its own:
// block j leaves mix j (the last: the sum of squares) in x[row, j], where
// hc_pre finds it. Same sums as stream_mixes(): wave w of eight has the partial
// sums 32 w + lane of the strided order.
//
// | constant | |
// |---|---|
// | kStreams, kHidden, kMixes | as in hc_pre.hip |

#include "streams.h"

DS4_DEVICE void run(u32 block, u32 row, const float *streams, const u8 *fn,
                    float *x, const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  static_assert(kThreads == 8 * kWave && kFlat % kThreads == 0);
  DS4_SHARED float partial[kThreads];
  const float *f = streams + static_cast<u64>(row) * kFlat;
  const u8 *weights = fn + block * row_bytes(kFlat);
  float sum = 0.0f;
  if (block < kMixes) {
    DS4_PREFETCH(16)
    for (u32 i = thread_x(); i < kFlat; i += kThreads)
      sum = fma_f32(weight_at(weights, i, nullptr), f[i], sum);
  } else {
    DS4_PREFETCH(16)
    for (u32 i = thread_x(); i < kFlat; i += kThreads)
      sum = fma_f32(f[i], f[i], sum);
  }
  partial[thread_x()] = sum;
  barrier();
  if (wave() != 0)
    return;
  float p[8];
#pragma unroll
  for (u32 j = 0; j < 8; ++j)
    p[j] = partial[kWave * j + lane()];
  sum = wave_sum(tree8(p));
  if (lane() == 0)
    x[static_cast<u64>(row) * kHidden + block] = sum;
}
