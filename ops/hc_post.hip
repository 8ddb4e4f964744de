// hc_post.hip - a sublayer's result goes back into the residual streams. A
// thread does an element of all streams.
//
//   result_k = post_k y + sum_j comb_jk X_j, ascending j
//
// | constant | |
// |---|---|
// | kStreams, kHidden | M, D |

#include "elements.h"

DS4_DEVICE void run(u32 block, u32 row, const float *y, const float *streams,
                    const float *post, const float *comb, float *result,
                    const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  y += static_cast<u64>(row) * kHidden;
  streams += static_cast<u64>(row) * kStreams * kHidden;
  result += static_cast<u64>(row) * kStreams * kHidden;
  post += row * kStreams;
  comb += row * kStreams * kStreams;
  float gates[kStreams], mix[kStreams][kStreams];
  DS4_REGISTERS
  for (u32 k = 0; k < kStreams; ++k) {
    gates[k] = post[k];
    DS4_REGISTERS
    for (u32 j = 0; j < kStreams; ++j)
      mix[j][k] = comb[j * kStreams + k];
  }
  for (u32 e = tile_begin(block); e < tile_end(block, kHidden); e += kThreads) {
    float x[kStreams];
    for (u32 j = 0; j < kStreams; ++j)
      x[j] = streams[j * kHidden + e];
    const float from = y[e];
    for (u32 k = 0; k < kStreams; ++k) {
      float sum = gates[k] * from;
      for (u32 j = 0; j < kStreams; ++j)
        sum = fma_f32(mix[j][k], x[j], sum);
      result[k * kHidden + e] = sum;
    }
  }
}
