// dot.h - products of a stored weight row with a vector, in the declared orders
// of sums (ir/Ds4Dialect.td). Every op that has such a product uses these, so
// that a row gives the same bits wherever it is met. The decoder of the format
// (ops/weights/) has been included before.
#include "sums.h"

/// Bytes of a row of n elements.
DS4_DEVICE constexpr u32 row_bytes(u32 n) {
  return n / kBlockElements * kBlockBytes;
}

/// Strided order, f32 x[n]: the calling lane's share of the dot product, which
/// is the wave's sum of the shares.
DS4_DEVICE float row_share_f32(const u8 *row, const float *x, u32 n,
                               const float *books) {
  float p[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  u32 first = lane();
  for (; first + 7 * kWave < n; first += 256)
    for (u32 j = 0; j < 8; ++j) {
      const u32 i = first + kWave * j;
      p[j] = fma_f32(weight_at(row, i, books), x[i], p[j]);
    }
  for (u32 j = 0; j < 8; ++j) {
    const u32 i = first + kWave * j;
    if (i < n)
      p[j] = fma_f32(weight_at(row, i, books), x[i], p[j]);
  }
  return tree8(p);
}

/// The dot product, in every lane of the wave.
DS4_DEVICE float row_dot_f32(const u8 *row, const float *x, u32 n,
                             const float *books) {
  return wave_sum(row_share_f32(row, x, n, books));
}

/// Segmented order, x as n codes and n / 32 scales: the share of the calling
/// lane, which does segment lane() % 8. The dot product is the segment sum of
/// the shares. A template only because formats that int8 activations never
/// meet have no block_dot.
template <typename Code>
DS4_DEVICE float row_share_q8(const u8 *row, const Code *codes,
                              const float *scales, u32 n) {
  const u32 blocks = n / 32, segment = lane() % 8;
  const u32 end = segment_begin(blocks, segment + 1);
  float sum = 0.0f;
  for (u32 b = segment_begin(blocks, segment); b < end; ++b)
    sum = block_dot(row, b, codes + 32 * b, scales[b], sum);
  return sum;
}

/// The dot product, in every lane of a group of 8.
template <typename Code>
DS4_DEVICE float row_dot_q8(const u8 *row, const Code *codes,
                            const float *scales, u32 n) {
  return segment_sum(row_share_q8(row, codes, scales, n));
}
