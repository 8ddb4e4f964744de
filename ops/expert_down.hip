// expert_down.hip - down product of the chosen experts, each with its own
// input. A wave does kWaveRows rows of one expert (products.h), for all tokens
// of a group that use it (expert_pairs.h).
//
//   result[t, i] = weight[experts[t, i]] h[t, i]
//
// | constant | |
// |---|---|
// | kIn, kOut | columns and rows of an expert's matrix |
// | kUsed | experts of a token |
// | kColumns | tokens that a block does; `row` counts groups of so many |
// | kBookLevels | levels of a learned book; 0: the format has none |
// | kInt8 | 1: h is int8, segmented order; 0: f32, strided order |

#include "expert_pairs.h"
#include "products.h"

DS4_DEVICE void run(u32 block, u32 row, const u8 *__restrict__ h,
                    const i32 *__restrict__ experts,
                    const u8 *__restrict__ weight,
                    const u8 *__restrict__ books, float *__restrict__ result,
                    const Step *step) {
  const u32 rows = row_count(kRatio, step), begin = row * kColumns;
  if (begin >= rows)
    return;
  constexpr u32 kTiles = (kOut + kWaveRows - 1) / kWaveRows;
  const u32 tokens = rows - begin < kColumns ? rows - begin : kColumns;
  experts += static_cast<u64>(begin) * kUsed;
  const u32 lead = grid_wave(block) / kTiles;
  const Pairs led = pairs_led_by(lead, tokens * kUsed, experts);
  if (led.count == 0)
    return;
  const u32 expert = static_cast<u32>(experts[lead]);
  const u64 matrix = static_cast<u64>(expert) * kOut * kRowBytes;
  const u32 first = grid_wave(block) % kTiles * kWaveRows;
  Columns columns;
  columns.count = led.count;
  for (u32 c = 0; c < kColumns; ++c) {
    const u64 vector = static_cast<u64>(begin) * kUsed + led.pair[c];
    columns.x[c] = h + vector * kVectorBytes;
    columns.y[c] = result + vector * kOut;
  }
  wave_products(weight + matrix, kOut, columns,
                books + expert * kBookBytes, first);
}
