// streams.h - statistics of the residual streams, shared by hc_pre and
// head_collapse: dot products of all streams, laid end to end, with the rows of
// a small weight, and their mean square. A block of whole waves does a row.
// Constants: kStreams, kHidden, kMixes (rows of the weight), kEps, kThreads.
#ifndef DS4_OPS_STREAMS_H
#define DS4_OPS_STREAMS_H

#include "dot.h"
#include "sums.h"

constexpr u32 kFlat = kStreams * kHidden;

/// mixes[j] = fn_j . f for j < kMixes, mixes[kMixes] = sum of f_i^2, both in
/// strided order, in LDS; ends with a barrier. A wave does every (kThreads /
/// 32)th of them.
DS4_DEVICE void stream_mixes(const float *f, const u8 *fn, float *mixes) {
  constexpr u32 kRowBytes = kFlat / kBlockElements * kBlockBytes;
  for (u32 j = wave(); j <= kMixes; j += kThreads / kWave) {
    const float sum = j < kMixes
                          ? row_dot_f32(fn + j * kRowBytes, f, kFlat, nullptr)
                          : wave_squares(f, kFlat);
    if (lane() == 0)
      mixes[j] = sum;
  }
  barrier();
}

#endif // DS4_OPS_STREAMS_H
