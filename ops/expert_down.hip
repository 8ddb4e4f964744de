// expert_down.hip - down product of the chosen experts, each with its own
// input. A wave does kWaveRows rows of one expert (products.h).
//
//   result[t, i] = weight[experts[t, i]] h[t, i]
//
// | constant | |
// |---|---|
// | kIn, kOut | columns and rows of an expert's matrix |
// | kUsed | experts of a token |
// | kBookLevels | levels of a learned codebook; 0: the format has none |
// | kInt8 | 1: h is int8, segmented order; 0: f32, strided order |

#include "products.h"

DS4_DEVICE void run(u32 block, const u8 *__restrict__ h,
                    const i32 *__restrict__ experts,
                    const u8 *__restrict__ weight,
                    const float *__restrict__ books, float *__restrict__ result,
                    const Step *step) {
  const u32 row = block_y();
  if (row >= row_count(kRatio, step))
    return;
  constexpr u32 kTiles = (kOut + kWaveRows - 1) / kWaveRows;
  const u32 slot = grid_wave(block) / kTiles;
  if (slot >= kUsed)
    return;
  const u64 vector = static_cast<u64>(row) * kUsed + slot;
  const u32 expert = static_cast<u32>(experts[vector]);
  wave_product(weight + static_cast<u64>(expert) * kOut * kRowBytes, kOut,
               h + vector * kVectorBytes, books + expert * 2 * kBookLevels,
               grid_wave(block) % kTiles * kWaveRows, result + vector * kOut);
}
