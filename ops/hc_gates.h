// hc_gates.h - what hc_pre.hip and hc_spread.hip have in common: gates, the
// small matrices by the lanes of a wave, the weighted sum of the streams.
// Constants: those of streams.h, kIterations, kHcEps.
#include "streams.h"

/// Gate `i` of the first 2 M: the sigmoid of its mix.
DS4_DEVICE float gate(const float *mixes, const float *scale, const float *base,
                      u32 i, float r) {
  return sigmoid_f32(
      fma_f32(mixes[i] * r, scale[i < kStreams ? 0 : 1], base[i]));
}

/// pre of all streams, in every lane of the wave; squares: the streams' sum of
/// squares.
DS4_DEVICE void gates_by_lanes(const float *mixes, float squares,
                               const float *scale, const float *base,
                               float (&pre)[kStreams]) {
  const float r = inverse_rms(squares, kFlat, kEps);
  const float mine = gate(mixes, scale, base, lane() % kStreams, r) + kHcEps;
  for (u32 i = 0; i < kStreams; ++i)
    pre[i] = shfl(mine, i);
}

/// comb by the lanes of a wave, a lane an element; all of its lanes must call
/// it. mixes: those of comb; r: see inverse_rms.
DS4_DEVICE void mix_by_lanes(const float *mixes, float r, const float *scale,
                             const float *base, float *comb) {
  constexpr u32 M = kStreams;
  const u32 l = lane();
  // Lane M j + k has element (j, k); lanes beyond repeat the last.
  const u32 e = l < M * M ? l : M * M - 1, j = e / M, k = e % M;
  float a = fma_f32(mixes[e] * r, scale[2], base[2 * M + e]);
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
