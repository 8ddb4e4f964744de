// append.hip - rows of the step go into a cache: row number n into slot n mod
// kRows. Eight lanes share a block of values with one scale. Each slot has one
// writer: a row that a later row of the step replaces is skipped.
//
// | constant | |
// |---|---|
// | kVectors, kDim | 1; values a row |
// | kTile | see value_blocks.h |
// | kRows, kRowBytes | rows of the cache, bytes of one |
// | kStorage | 0 f32, 1 f16, 2 fp8 and a bf16 tail, 3 fp4 |

constexpr u32 kBlock = kStorage == kFp4 ? kFp4Block : kFp8Block;

#include "value_blocks.h"

/// Stores the values first, first + 1, ... of a row.
DS4_DEVICE void store_values(u8 *row, u32 first, const float *v) {
  // The exponent byte follows from the rounded values as well as from the
  // values before rounding: at most, a block whose greatest value rounded down
  // to a power of two gets half the scale and twice the codes.
  if constexpr (kStorage == kFp8) {
    constexpr u32 kCodes = kDim - kFp8Tail;
    const u32 e = fp8_exponent(group_max_abs(v, kLaneValues));
    if (first >= kDim)
      return;
    for (u32 i = 0; i < kLaneValues; ++i)
      if (first >= kCodes)
        store_u16(row + kCodes + 2 * (first + i - kCodes), bf16_from_f32(v[i]));
      else
        row[first + i] = static_cast<u8>(fp8_code(v[i], e));
    if (first < kCodes && first % kBlock == 0)
      row[kCodes + 2 * kFp8Tail + first / kBlock] = static_cast<u8>(e);
  } else if constexpr (kStorage == kFp4) {
    const u32 e = fp4_exponent(group_max_abs(v, kLaneValues));
    if (first >= kDim)
      return;
    for (u32 i = 0; i < kLaneValues; i += 2)
      row[(first + i) / 2] =
          static_cast<u8>(fp4_code(v[i], e) | fp4_code(v[i + 1], e) << 4);
    if (first % kBlock == 0)
      row[kDim / 2 + first / kBlock] = static_cast<u8>(e);
  } else {
    for (u32 i = 0; i < kLaneValues; ++i) {
      const u32 at = first + i;
      if (at >= kDim)
        return;
      if constexpr (kStorage == kF32) {
        const u32 bits = bits_of(v[i]);
        store_u16(row + 4 * at, bits);
        store_u16(row + 4 * at + 2, bits >> 16);
      } else {
        store_u16(row + 2 * at, f16_from_f32(v[i]));
      }
    }
  }
}

DS4_DEVICE void run(u32 block, u32 row, const float *x, u8 *state,
                    const Step *step) {
  const u32 rows = row_count(kRatio, step);
  if (row >= rows || row + kRows < rows)
    return;
  x += static_cast<u64>(row) * kDim;
  const u32 slot = row_number(kRatio, step, row) % kRows;
  for (u32 pass = 0; pass < kTile; pass += kPassValues) {
    const u32 first = lane_values(block, pass).first;
    float v[kLaneValues];
    for (u32 i = 0; i < kLaneValues; ++i)
      v[i] = first + i < kDim ? x[first + i] : 0.0f;
    store_values(state + static_cast<u64>(slot) * kRowBytes, first, v);
  }
}
