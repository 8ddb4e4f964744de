// expert_down.hip - down product of the chosen experts, each with its own
// input. A wave does kWaveRows rows of one expert (products.h), for the pairs
// that expert_pairs.h gives it.
//
//   result[t, i] = weight[experts[t, i]] h[t, i]
//
// | constant | |
// |---|---|
// | kIn, kOut | columns and rows of an expert's matrix |
// | kUsed | experts of a token |
// | kColumns | pairs that share what is decoded |
// | kGrouped | 1: `pairs` of ds4.group_pairs; 0: `row` counts kColumns tokens |
// | kBookLevels | levels of a learned book; 0: the format has none |
// | kInt8 | 1: h is int8, segmented order; 0: f32, strided order |

#include "expert_pairs.h"
#include "products.h"

DS4_DEVICE void run(u32 block, u32 row, const u8 *__restrict__ h,
                    const i32 *__restrict__ experts,
                    const u8 *__restrict__ weight,
                    const u8 *__restrict__ books,
                    const i32 *__restrict__ pairs, float *__restrict__ result,
                    const Step *step) {
  constexpr u32 kTiles = (kOut + kWaveRows - 1) / kWaveRows;
  const u32 lead = grid_wave(block) / kTiles;
  const u32 first = grid_wave(block) % kTiles * kWaveRows;
  const PairGroup group = pair_group(row, experts, pairs, step);
  const PairRange range = pairs_of_wave(group, lead);
  for (u32 at = range.begin; at < range.end; at += kColumns) {
    const Pairs led = pairs_at(group, at, range.end);
    const u32 expert = static_cast<u32>(group.experts[led.pair[0]]);
    Columns columns = {h, result, {}, {}, led.count};
    DS4_REGISTERS
    for (u32 c = 0; c < kColumns; ++c)
      columns.from[c] = columns.to[c] = group.first * kUsed + led.pair[c];
    wave_products(weight + static_cast<u64>(expert) * kOut * kRowBytes, kOut,
                  columns, books + expert * kBookBytes, first);
  }
}
