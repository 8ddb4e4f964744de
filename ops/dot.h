// dot.h - products of a stored weight row with an f32 vector, in the strided
// order of sums (ir/Ds4Dialect.td). Every op that has such a product uses
// these, so that a row gives the same bits wherever it is met. Rows are whole
// blocks; the decoder of the format (ops/weights/) has been included before.
// The segmented order, of int8 vectors, is in layouts/.
#include "sums.h"

/// Bytes of a row of n elements.
DS4_DEVICE constexpr u32 row_bytes(u32 n) {
  return n / kBlockElements * kBlockBytes;
}

/// Whether an element is a level times the scale of its block of 32, which the
/// decoder gives apart: plain_level(row, i), plain_scale(row, b).
template <typename Index>
constexpr bool kHasPlainScales =
    requires(const u8 *row, Index i) { plain_scale(row, i); };

/// row_share_f32 of n = 1024, 2048, ... elements: a lane decodes every 32nd
/// scale and hands it to the others, who are at one block together.
template <typename Row>
DS4_DEVICE float plain_row_share(Row row, const float *x, u32 n) {
  float p[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  for (u32 base = 0; base < n; base += 1024) {
    const float scale = plain_scale(row, base / 32 + lane());
    DS4_REGISTERS
    for (u32 b = 0; b < 32; ++b) {
      const u32 i = base + 32 * b + lane();
      p[b % 8] = fma_f32(plain_level(row, i) * shfl(scale, b), x[i], p[b % 8]);
    }
  }
  return tree8(p);
}

/// Strided order, f32 x[n]: the calling lane's share of the dot product, which
/// is the wave's sum of the shares.
template <typename Row>
DS4_DEVICE float row_share_f32(Row row, const float *x, u32 n,
                               const float *books) {
  if constexpr (kShufflesAreCheap && kHasPlainScales<u32>)
    if (n % 1024 == 0)
      return plain_row_share(row, x, n);
  float p[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  u32 first = lane();
  DS4_PREFETCH(4)
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

/// The calling lane's shares in the products of `count` vectors; each weight is
/// decoded once for all of them.
template <u32 kCount>
DS4_DEVICE void row_shares_f32(const u8 *row, const float *const (&x)[kCount],
                               u32 count, u32 n, const float *books,
                               float (&shares)[8]) {
  float p[kCount][8] = {};
  for (u32 first = lane(); first < n; first += 256)
#pragma unroll
    for (u32 j = 0; j < 8; ++j) {
      const u32 i = first + kWave * j;
      if (i >= n)
        break;
      const float weight = weight_at(row, i, books);
#pragma unroll
      for (u32 c = 0; c < kCount; ++c)
        if (c < count)
          p[c][j] = fma_f32(weight, x[c][i], p[c][j]);
    }
#pragma unroll
  for (u32 c = 0; c < kCount; ++c)
    shares[c] = tree8(p[c]);
}

/// The dot product, in every lane of the wave.
DS4_DEVICE float row_dot_f32(const u8 *row, const float *x, u32 n,
                             const float *books) {
  return wave_sum(row_share_f32(row, x, n, books));
}
