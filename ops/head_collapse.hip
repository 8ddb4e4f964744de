// head_collapse.hip - the residual streams of an output row become one vector.
// One block a row, as hc_pre.
//
//   g_i = sigmoid(((fn_i . f) r) scale + base_i) + hc_eps; result = sum g_i X_i
//
// | constant | |
// |---|---|
// | kStreams, kHidden | M, D |
// | kMixes | M |
// | kEps, kHcEps | in the mean square; added to g |

#include "streams.h"

DS4_DEVICE void run(u32 block, u32 row, const float *streams, const u8 *fn,
                    const float *scale, const float *base, float *result,
                    const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  DS4_SHARED float mixes[kMixes + 1];
  const float *f = streams + static_cast<u64>(row) * kFlat;
  stream_mixes(f, fn, mixes);

  const float r = inverse_rms(mixes[kMixes], kFlat, kEps);
  float g[kStreams];
  for (u32 i = 0; i < kStreams; ++i)
    g[i] = sigmoid_f32(fma_f32(mixes[i] * r, scale[0], base[i])) + kHcEps;
  for (u32 e = thread_x(); e < kHidden; e += kThreads) {
    float sum = g[0] * f[e];
    for (u32 i = 1; i < kStreams; ++i)
      sum = fma_f32(g[i], f[i * kHidden + e], sum);
    result[static_cast<u64>(row) * kHidden + e] = sum;
  }
}
