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
// | kSpread | 1: hc_mix.hip has left the dot products in x |
// | kByLanes | 1: the lanes of a wave have the small matrices, for GPUs |

#include "streams.h"

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

/// Gate `i` of the first 2 M: the sigmoid of its mix.
DS4_DEVICE float gate(const float *mixes, const float *scale, const float *base,
                      u32 i, float r) {
  return sigmoid_f32(
      fma_f32(mixes[i] * r, scale[i < kStreams ? 0 : 1], base[i]));
}

/// The same small matrices by the lanes of a wave, a lane an element; all of
/// its lanes must call it.
DS4_DEVICE void mix_by_lanes(const float *mixes, const float *scale,
                             const float *base, float *post, float *comb) {
  constexpr u32 M = kStreams;
  const float r = inverse_rms(mixes[kMixes], kFlat, kEps);
  const u32 l = lane();
  if (l < M)
    post[l] = 2.0f * gate(mixes, scale, base, M + l, r);
  // Lane M j + k has element (j, k); lanes beyond repeat the last.
  const u32 e = l < M * M ? l : M * M - 1, j = e / M, k = e % M;
  float a = fma_f32(mixes[2 * M + e] * r, scale[2], base[2 * M + e]);
  float m = shfl(a, M * j);
  for (u32 i = 1; i < M; ++i)
    m = max_f32(m, shfl(a, M * j + i));
  a = exp_f32(a - m);
  float sum = shfl(a, M * j);
  for (u32 i = 1; i < M; ++i)
    sum += shfl(a, M * j + i);
  a = div_f32(a, sum) + kHcEps;
  for (u32 half = 1; half < 2 * kIterations; ++half) {
    // Columns, then rows, in turn.
    const u32 first = half % 2 ? k : M * j, stride = half % 2 ? M : 1;
    sum = shfl(a, first);
    for (u32 i = 1; i < M; ++i)
      sum += shfl(a, first + stride * i);
    a = div_f32(a, sum + kHcEps);
  }
  if (l < M * M)
    comb[l] = a;
}

/// x = sum_i pre_i X_i by the threads from `from` on, neighbours by fours.
DS4_DEVICE void collapse(const float *f, const float *pre, float *x, u32 from) {
  // Loads of a batch before its stores, so that they are on their way together.
  constexpr u32 kVector = kHidden % 4 == 0 ? 4 : 1, kBatch = 8 / kVector;
  const u32 pass = (kThreads - from) * kVector;
  for (u32 e = (thread_x() - from) * kVector; e < kHidden; e += kBatch * pass) {
    float sums[kBatch][kVector];
    DS4_REGISTERS
    for (u32 b = 0; b < kBatch; ++b)
      if (const u32 at = e + b * pass; at < kHidden) {
        float values[kStreams][kVector];
        DS4_REGISTERS
        for (u32 i = 0; i < kStreams; ++i)
          load_floats(f + i * kHidden + at, values[i]);
        DS4_REGISTERS
        for (u32 v = 0; v < kVector; ++v) {
          sums[b][v] = pre[0] * values[0][v];
          DS4_REGISTERS
          for (u32 i = 1; i < kStreams; ++i)
            sums[b][v] = fma_f32(pre[i], values[i][v], sums[b][v]);
        }
      }
    DS4_REGISTERS
    for (u32 b = 0; b < kBatch; ++b)
      if (const u32 at = e + b * pass; at < kHidden)
        store_floats(x + at, sums[b]);
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
  if constexpr (kSpread != 0) {
    if (thread_x() <= kMixes)
      mixes[thread_x()] = x[static_cast<u64>(row) * kHidden + thread_x()];
    barrier();
  } else {
    stream_mixes(f, fn, mixes);
  }

  if constexpr (kByLanes != 0) {
    // The first wave has the long chain of small steps; the others collapse.
    if (wave() == 0) {
      mix_by_lanes(mixes, scale, base, post + row * kStreams,
                   comb + row * kStreams * kStreams);
    } else {
      const float r = inverse_rms(mixes[kMixes], kFlat, kEps);
      const float mine =
          gate(mixes, scale, base, lane() % kStreams, r) + kHcEps;
      float gates[kStreams];
      for (u32 i = 0; i < kStreams; ++i)
        gates[i] = shfl(mine, i);
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
