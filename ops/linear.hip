// linear.hip - y = W x, and grouped_linear, where each group of rows has its
// own x. A wave does kWaveRows rows (products.h).
//
//   y[t, g, n] = W[g, n] . x[t, g]
//
// | constant | |
// |---|---|
// | kIn, kOut | columns; rows of a group |
// | kGroups | 1 for linear |
// | kInt8 | 1: x is int8, segmented order; 0: f32, strided order |

#include "products.h"

DS4_DEVICE void run(u32 block, const u8 *__restrict__ x,
                    const u8 *__restrict__ weight, float *__restrict__ result,
                    const Step *step) {
  const u32 row = block_y();
  if (row >= row_count(kRatio, step))
    return;
  constexpr u32 kTiles = (kOut + kWaveRows - 1) / kWaveRows;
  const u32 group = grid_wave(block) / kTiles;
  if (group >= kGroups)
    return;
  const u64 vector = static_cast<u64>(row) * kGroups + group;
  wave_product(weight + static_cast<u64>(group) * kOut * kRowBytes, kOut,
               x + vector * kVectorBytes, nullptr,
               grid_wave(block) % kTiles * kWaveRows, result + vector * kOut);
}
