// simulate.hip - the FP8 or FP4 round trip of training, on the first values of
// each vector; the others are copied. Eight lanes share a block of values with
// one scale; each does consecutive values.
//
// | constant | |
// |---|---|
// | kVectors, kDim | vectors a row, values a vector |
// | kWidth | values that are rounded, a multiple of the block |
// | kTile | see value_blocks.h |
// | kFp4Mode | 0: FP8, blocks of 64; 1: FP4, blocks of 32 |

constexpr u32 kBlock = kFp4Mode ? kFp4Block : kFp8Block;

#include "value_blocks.h"

DS4_DEVICE void run(u32 block, u32 row, const float *x, float *result,
                    const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  for (u32 pass = 0; pass < kTile; pass += kPassValues) {
    const auto [vector, first] = lane_values(block, pass);
    const u64 at = (static_cast<u64>(row) * kVectors + vector) * kDim;
    float v[kLaneValues];
    for (u32 i = 0; i < kLaneValues; ++i)
      v[i] = first + i < kDim ? x[at + first + i] : 0.0f;
    const float amax = group_max_abs(v, kLaneValues);
    const u32 e = kFp4Mode ? fp4_exponent(amax) : fp8_exponent(amax);
    for (u32 i = 0; i < kLaneValues; ++i) {
      if (first < kWidth)
        v[i] = kFp4Mode ? fp4_simulate(v[i], e) : fp8_simulate(v[i], e);
      if (first + i < kDim)
        result[at + first + i] = v[i];
    }
  }
}
