// rope.hip - rotary embedding of the last dimensions of each vector, in
// interleaved pairs (a, b); other values are copied. A thread does a value.
//
//   a' = fma(a, c, -(b s)); b' = fma(a, s, b c); s = -s if inverse
//
// | constant | |
// |---|---|
// | kVectors, kDim | vectors a row, values a vector |
// | kRotated | values that are rotated, the last of a vector |
// | kInverse | 1: rotate back |

#include "elements.h"

/// Value e of the row.
DS4_DEVICE float rotated(const float *x, const float *table, u32 e) {
  const u32 at = e % kDim;
  if (at < kDim - kRotated)
    return x[e];
  const u32 odd = (at - (kDim - kRotated)) % 2;
  const float *angle = table + (at - (kDim - kRotated) - odd);
  const float a = x[e - odd], b = x[e - odd + 1];
  const float c = angle[0], s = kInverse ? -angle[1] : angle[1];
  return odd ? fma_f32(a, s, b * c) : fma_f32(a, c, -(b * s));
}

DS4_DEVICE void run(u32 block, u32 row, const float *x, const float *table,
                    float *result, const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  x += static_cast<u64>(row) * kVectors * kDim;
  result += static_cast<u64>(row) * kVectors * kDim;
  // cos and sin of pair i are values 2i and 2i + 1.
  table += static_cast<u64>(row_position(kRatio, step, row)) * kRotated;
  each_item<1>(
      block, kVectors * kDim,
      [&](u32 e, float (&out)[1]) { out[0] = rotated(x, table, e); },
      [&](u32 e, const float (&out)[1]) { result[e] = out[0]; });
}
