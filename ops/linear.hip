// linear.hip - y = W x, and grouped_linear, where each group of rows has its
// own x. A wave does kWaveRows rows for kColumns rows of activations
// (products.h).
//
//   y[t, g, n] = W[g, n] . x[t, g]
//
// | constant | |
// |---|---|
// | kIn, kOut | columns; rows of a group |
// | kGroups | 1 for linear |
// | kBookLevels | levels of a learned book; 0: the format has none |
// | kInt8 | 1: x is int8, segmented order; 0: f32, strided order |
// | kColumns | rows of x that a block does; `row` counts groups of so many |

#include "products.h"

DS4_DEVICE void run(u32 block, u32 row, const u8 *__restrict__ x,
                    const u8 *__restrict__ weight,
                    const u8 *__restrict__ books, float *__restrict__ result,
                    const Step *step) {
  const u32 rows = row_count(kRatio, step), begin = row * kColumns;
  if (begin >= rows)
    return;
  constexpr u32 kTiles = (kOut + kWaveRows - 1) / kWaveRows;
  const u32 group = grid_wave(block) / kTiles;
  if (group >= kGroups)
    return;
  Columns columns = {x, result, {}, {}, rows - begin};
  if (columns.count > kColumns)
    columns.count = kColumns;
  DS4_REGISTERS
  for (u32 c = 0; c < kColumns; ++c)
    columns.from[c] = columns.to[c] =
        (begin + (c < columns.count ? c : 0)) * kGroups + group;
  wave_products(weight + static_cast<u64>(group) * kOut * kRowBytes, kOut,
                columns, books, grid_wave(block) % kTiles * kWaveRows);
}
