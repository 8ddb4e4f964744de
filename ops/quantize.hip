// quantize.hip - f32 activations to int8, one scale per 32 values. A thread
// does 32 values, so that no lane waits for another, or eight lanes share them.
//
//   scale = max|x| / 127; code = round(x / scale), ties to even
//
// A vector of K values becomes K codes, then K / 32 scales. With kRotate,
// vectors of rotated experts are rotated first.
//
// | constant | |
// |---|---|
// | kWidth | K, values of a vector |
// | kVectors | vectors of a row; with kRotate an expert each |
// | kRotate | 1: experts and rotations are given |
// | kLanes | that share 32 values: 1 or, without kRotate, 8 |

#include "elements.h"
#include "rotation.h"

constexpr u32 kBlocks = kWidth / 32;

/// By eight lanes, each of which has four neighbouring values.
DS4_DEVICE void share_blocks(u32 block, u32 row, const float *x, u8 *result) {
  static_assert(kLanes == 1 || kRotate == 0);
  constexpr u32 kGroups = kThreads / 8;
  const u32 begin = block * kTile, end = begin + kTile, part = lane() % 8 * 4;
  // Loads of a batch before its stores, so that they are on their way together.
  constexpr u32 kBatch = 4;
  const auto place = [&](u32 i) {
    return (static_cast<u64>(row) * kVectors + i / kBlocks) * kWidth +
           32 * (i % kBlocks);
  };
  for (u32 first = begin; first < end; first += kBatch * kGroups) {
    float values[kBatch][4] = {};
    DS4_REGISTERS
    for (u32 b = 0; b < kBatch; ++b)
      if (const u32 i = first + b * kGroups + thread_x() / 8;
          i < end && i < kVectors * kBlocks)
        load_floats(x + place(i) + part, values[b]);
    DS4_REGISTERS
    for (u32 b = 0; b < kBatch; ++b) {
      const u32 i = first + b * kGroups + thread_x() / 8;
      const bool live = i < end && i < kVectors * kBlocks;
      float amax = 0.0f;
      for (u32 j = 0; j < 4; ++j)
        amax = max_abs(amax, values[b][j]);
      for (u32 mask = 1; mask < 8; mask *= 2)
        amax = max_abs(amax, shfl_xor(amax, mask));
      const float scale = int8_scale(amax);
      u8 four[4];
      for (u32 j = 0; j < 4; ++j)
        four[j] = static_cast<u8>(int8_code(values[b][j], scale));
      u8 *codes = result + (static_cast<u64>(row) * kVectors + i / kBlocks) *
                               (kWidth + 4 * kBlocks);
      const u32 group = i % kBlocks;
      if (live) {
        store_aligned<4>(codes + 32 * group + part, four);
        if (part == 0)
          reinterpret_cast<float *>(codes + kWidth)[group] = scale;
      }
    }
  }
}

DS4_DEVICE void run(u32 block, u32 row, const float *__restrict__ x,
                    const i32 *__restrict__ experts,
                    const i32 *__restrict__ rotations, u8 *__restrict__ result,
                    const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  if constexpr (kLanes == 8) {
    share_blocks(block, row, x, result);
    return;
  }
  for (u32 i = tile_begin(block); i < tile_end(block, kVectors * kBlocks);
       i += kThreads) {
    const u32 group = i % kBlocks;
    const u64 vector = static_cast<u64>(row) * kVectors + i / kBlocks;
    float values[32];
    for (u32 j = 0; j < 32; ++j)
      values[j] = x[vector * kWidth + 32 * group + j];
    if constexpr (kRotate != 0)
      if (rotations[experts[vector]] != 0)
        rotate_block(values);
    u8 *codes = result + vector * (kWidth + 4 * kBlocks);

    float amax = 0.0f;
    for (u32 j = 0; j < 32; ++j)
      amax = max_abs(amax, values[j]);
    const float scale = int8_scale(amax);
    reinterpret_cast<float *>(codes + kWidth)[group] = scale;
    for (u32 j = 0; j < 32; ++j)
      codes[32 * group + j] = static_cast<u8>(int8_code(values[j], scale));
  }
}
