// hc_pre.hip - mixing coefficients of a hyper-connection site and the collapsed
// input. One block a row: its waves share the dot products, one thread does the
// small matrices, all threads the weighted sum of the streams.
//
//   r = 1 / sqrt(mean(f^2) + eps); mix_j = (fn_j . f) r
//   pre = sigmoid(mix scale_0 + base) + hc_eps; post = 2 sigmoid(...)
//   comb = Sinkhorn(mix scale_2 + base); x = sum_i pre_i X_i
//
// | constant | |
// |---|---|
// | kStreams, kHidden | M, D |
// | kMixes | (2 + M) M |
// | kIterations | Sinkhorn steps, each a row and a column step |
// | kEps, kHcEps | in the mean square; added to pre and in Sinkhorn |
// | kByLanes | 1: the lanes of a wave have the small matrices, for GPUs |

#include "hc_gates.h"

/// Divides each row by its sum + kHcEps.
DS4_DEVICE void scale_rows(float (&a)[kStreams][kStreams]) {
  for (u32 j = 0; j < kStreams; ++j) {
    float sum = a[j][0];
    for (u32 k = 1; k < kStreams; ++k)
      sum += a[j][k];
    sum += kHcEps;
    for (u32 k = 0; k < kStreams; ++k)
      a[j][k] = div_f32(a[j][k], sum);
  }
}

/// Divides each column by its sum + kHcEps.
DS4_DEVICE void scale_columns(float (&a)[kStreams][kStreams]) {
  for (u32 k = 0; k < kStreams; ++k) {
    float sum = a[0][k];
    for (u32 j = 1; j < kStreams; ++j)
      sum += a[j][k];
    sum += kHcEps;
    for (u32 j = 0; j < kStreams; ++j)
      a[j][k] = div_f32(a[j][k], sum);
  }
}

/// Each row becomes its softmax + kHcEps.
DS4_DEVICE void softmax_rows(float (&a)[kStreams][kStreams]) {
  for (u32 j = 0; j < kStreams; ++j) {
    float m = a[j][0];
    for (u32 k = 1; k < kStreams; ++k)
      m = max_f32(m, a[j][k]);
    float sum = 0.0f;
    for (u32 k = 0; k < kStreams; ++k) {
      a[j][k] = exp_f32(a[j][k] - m);
      sum = k == 0 ? a[j][k] : sum + a[j][k];
    }
    for (u32 k = 0; k < kStreams; ++k)
      a[j][k] = div_f32(a[j][k], sum) + kHcEps;
  }
}

DS4_DEVICE void run(u32 block, u32 row, const float *streams, const u8 *fn,
                    const float *scale, const float *base, float *x,
                    float *post, float *comb, const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  DS4_SHARED float mixes[kMixes + 1];
  DS4_SHARED float pre[kStreams];
  const float *f = streams + static_cast<u64>(row) * kFlat;
  stream_mixes(f, fn, mixes);

  if constexpr (kByLanes != 0) {
    // The first wave has the long chain of small steps; the others collapse.
    if (wave() == 0) {
      const float r = inverse_rms(mixes[kMixes], kFlat, kEps);
      if (lane() < kStreams)
        post[row * kStreams + lane()] =
            2.0f * gate(mixes, scale, base, kStreams + lane(), r);
      mix_by_lanes(mixes + 2 * kStreams, r, scale, base,
                   comb + row * kStreams * kStreams);
    } else {
      float gates[kStreams];
      gates_by_lanes(mixes, mixes[kMixes], scale, base, gates);
      collapse(f, gates, x + static_cast<u64>(row) * kHidden, kWave);
    }
    return;
  }
  if (thread_x() == 0) {
    const float r = inverse_rms(mixes[kMixes], kFlat, kEps);
    float a[kStreams][kStreams];
    for (u32 i = 0; i < kStreams; ++i) {
      pre[i] = sigmoid_f32(fma_f32(mixes[i] * r, scale[0], base[i])) + kHcEps;
      const u32 at = kStreams + i;
      post[row * kStreams + i] =
          2.0f * sigmoid_f32(fma_f32(mixes[at] * r, scale[1], base[at]));
    }
    for (u32 j = 0; j < kStreams; ++j)
      for (u32 k = 0; k < kStreams; ++k) {
        const u32 at = (2 + j) * kStreams + k;
        a[j][k] = fma_f32(mixes[at] * r, scale[2], base[at]);
      }
    softmax_rows(a);
    scale_columns(a);
    for (u32 i = 1; i < kIterations; ++i) {
      scale_rows(a);
      scale_columns(a);
    }
    for (u32 j = 0; j < kStreams; ++j)
      for (u32 k = 0; k < kStreams; ++k)
        comb[(row * kStreams + j) * kStreams + k] = a[j][k];
  }
  barrier();

  collapse(f, pre, x + static_cast<u64>(row) * kHidden, 0);
}
