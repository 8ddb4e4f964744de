// streams.h - statistics of the residual streams, shared by hc_pre and
// head_collapse: dot products of all streams, laid end to end, with the rows of
// a small weight, and their mean square. A block of whole waves does a row.
// Constants: kStreams, kHidden, kMixes (rows of the weight), kEps, kThreads.
#include "dot.h"
#include "sums.h"

constexpr u32 kFlat = kStreams * kHidden;

/// mixes[j] = fn_j . f for j < kMixes, mixes[kMixes] = sum of f_i^2, both in
/// strided order, in LDS; ends with a barrier. A wave does every (kThreads /
/// 32)th of them, up to eight before its lanes meet.
DS4_DEVICE void stream_mixes(const float *f, const u8 *fn, float *mixes) {
  constexpr u32 kWaves = kThreads / kWave;
  for (u32 first = wave(); first <= kMixes; first += 8 * kWaves) {
    float shares[8] = {0, 0, 0, 0, 0, 0, 0, 0};
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
      const u32 j = first + i * kWaves;
      if (j < kMixes)
        shares[i] = row_share_f32(fn + j * row_bytes(kFlat), f, kFlat, nullptr);
      else if (j == kMixes)
        shares[i] = squares_share(f, kFlat);
    }
    const float sum = wave_sums(shares);
    const u32 j = first + lane() * kWaves;
    if (lane() < 8 && j <= kMixes)
      mixes[j] = sum;
  }
  barrier();
}
