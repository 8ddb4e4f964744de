// round_row.hip - what a row will be once it has been stored in a cache. Eight
// lanes share a block of values with one scale, as simulate.
//
// | constant | |
// |---|---|
// | kVectors, kDim | 1; values a row |
// | kTile | see value_blocks.h |
// | kStorage | 0 f32, 1 f16, 2 fp8 and a bf16 tail, 3 fp4 |

constexpr u32 kBlock = kStorage == kFp4 ? kFp4Block : kFp8Block;

#include "value_blocks.h"

/// The value that x reads back as; e: exponent byte of its block.
DS4_DEVICE float stored(float x, u32 i, u32 e) {
  if constexpr (kStorage == kF32)
    return x;
  if constexpr (kStorage == kF16)
    return f32_from_f16(f16_from_f32(x));
  if constexpr (kStorage == kFp4)
    return fp4_simulate(x, e);
  return i < kDim - kFp8Tail ? fp8_simulate(x, e)
                             : f32_from_bf16(bf16_from_f32(x));
}

DS4_DEVICE void run(u32 block, u32 row, const float *x, float *result,
                    const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  x += static_cast<u64>(row) * kDim;
  result += static_cast<u64>(row) * kDim;
  for (u32 pass = 0; pass < kTile; pass += kPassValues) {
    const u32 first = lane_values(block, pass).first;
    float v[kLaneValues];
    for (u32 i = 0; i < kLaneValues; ++i)
      v[i] = first + i < kDim ? x[first + i] : 0.0f;
    u32 e = 0;
    if constexpr (kStorage == kFp8)
      e = fp8_exponent(group_max_abs(v, kLaneValues));
    if constexpr (kStorage == kFp4)
      e = fp4_exponent(group_max_abs(v, kLaneValues));
    for (u32 i = 0; i < kLaneValues; ++i)
      if (first + i < kDim)
        result[first + i] = stored(v[i], first + i, e);
  }
}
