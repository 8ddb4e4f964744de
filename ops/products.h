// products.h - matrix times vector by waves, shared by linear and the experts:
// a wave does kWaveRows consecutive rows of a matrix. Constants that codegen
// prints: kIn (columns), kRowBytes (from one row to the next), kInt8 (the
// vector is int8 codes and scales), kThreads. The decoder and the layout of the
// weight (layouts/) have been included before.
#include "dot.h"

/// int8: 8 lanes a row, a lane a segment, 8 rows a lane. f32: all lanes share
/// 8 rows. Either way the sums of 8 rows cross the lanes together.
constexpr u32 kWaveRows = kInt8 ? 32 : 8;

/// Bytes of a vector of the activations: f32 values, or codes and scales.
constexpr u32 kVectorBytes = kInt8 ? kIn + kIn / 32 * 4 : kIn * 4;

/// The wave's number in its row of the grid.
DS4_DEVICE u32 grid_wave(u32 block) {
  return block * (kThreads / kWave) + wave();
}

/// y[i] = matrix[i] . x for first <= i < first + kWaveRows, i < rows, by one
/// whole wave.
DS4_DEVICE void wave_product(const u8 *matrix, u32 rows, const u8 *x,
                             const float *books, u32 first, float *y) {
  float shares[8];
  if constexpr (kInt8 != 0) {
    const i8 *codes = reinterpret_cast<const i8 *>(x);
    const float *scales = reinterpret_cast<const float *>(x + kIn);
    for (u32 r = 0; r < 8; ++r) {
      const u32 i = first + lane() / 8 * 8 + r;
      const u8 *row = matrix + static_cast<u64>(i) * kRowBytes;
      shares[r] = i < rows ? segment_share(row, codes, scales) : 0.0f;
    }
    const float sum = segment_sums(shares);
    if (first + lane() < rows)
      y[first + lane()] = sum;
  } else {
    const float *values = reinterpret_cast<const float *>(x);
    for (u32 r = 0; r < 8; ++r) {
      const u32 i = first + r;
      const u8 *row = matrix + static_cast<u64>(i) * kRowBytes;
      shares[r] = i < rows ? row_share_f32(row, values, kIn, books) : 0.0f;
    }
    const float sum = wave_sums(shares);
    if (lane() < 8 && first + lane() < rows)
      y[first + lane()] = sum;
  }
}
