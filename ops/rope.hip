// rope.hip - rotary embedding of the last dimensions of each vector, in
// interleaved pairs (a, b); other values are copied. A thread does a value or
// two pairs.
//
//   a' = fma(a, c, -(b s)); b' = fma(a, s, b c); s = -s if inverse
//
// | constant | |
// |---|---|
// | kVectors, kDim | vectors a row, values a vector |
// | kRotated | values that are rotated, the last of a vector |
// | kInverse | 1: rotate back |
// | kItem | values at once: 1 or 4 |

#include "elements.h"

/// Value e of the row.
DS4_DEVICE void rotate(const float *x, const float *table, u32 e,
                       float (&values)[1]) {
  const u32 at = e % kDim;
  values[0] = x[e];
  if (at < kDim - kRotated)
    return;
  const u32 odd = (at - (kDim - kRotated)) % 2;
  const float *angle = table + (at - (kDim - kRotated) - odd);
  const float a = x[e - odd], b = x[e - odd + 1];
  const float c = angle[0], s = kInverse ? -angle[1] : angle[1];
  values[0] = odd ? fma_f32(a, s, b * c) : fma_f32(a, c, -(b * s));
}

/// Values e, ..., e + 3 of the row, e a multiple of 4.
DS4_DEVICE void rotate(const float *x, const float *table, u32 e,
                       float (&values)[4]) {
  const u32 at = e % kDim;
  load_floats(x + e, values);
  if (at < kDim - kRotated)
    return;
  float angles[4];
  load_floats(table + (at - (kDim - kRotated)), angles);
  DS4_REGISTERS
  for (u32 i = 0; i < 4; i += 2) {
    const float a = values[i], b = values[i + 1], c = angles[i];
    const float s = kInverse ? -angles[i + 1] : angles[i + 1];
    values[i] = fma_f32(a, c, -(b * s));
    values[i + 1] = fma_f32(a, s, b * c);
  }
}

DS4_DEVICE void run(u32 block, u32 row, const float *x, const float *table,
                    float *result, const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  x += static_cast<u64>(row) * kVectors * kDim;
  result += static_cast<u64>(row) * kVectors * kDim;
  // cos and sin of pair i are values 2i and 2i + 1.
  table += static_cast<u64>(row_position(kRatio, step, row)) * kRotated;
  each_item<kItem>(
      block, kVectors * kDim / kItem,
      [&](u32 i, float(&values)[kItem]) {
        rotate(x, table, i * kItem, values);
      },
      [&](u32 i, const float(&values)[kItem]) {
        store_floats(result + i * kItem, values);
      });
}
