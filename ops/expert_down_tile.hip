// expert_down_tile.hip - down product of the chosen experts for the pairs of a
// whole step, by tiles (tile.h): a block does kTileRows rows of an expert's
// matrix, for all its pairs.
//
//   result[t, i] = weight[experts[t, i]] h[t, i]
//
// | constant | |
// |---|---|
// | kOut | rows of an expert's matrix |
// | kUsed | experts of a token |
// | kColumns | pairs that share what is decoded |
// | kGrouped | 1: `pairs` of ds4.group_pairs |

#include "expert_pairs.h"
#include "tile_mma.h"

#include "tile.h"

DS4_DEVICE void run(u32 block, u32 row, const u8 *__restrict__ h,
                    const i32 *__restrict__ experts,
                    const u8 *__restrict__ weight, const u8 *__restrict__ books,
                    const i32 *__restrict__ pairs, float *__restrict__ result,
                    const Step *step) {
  constexpr u32 kTiles = (kOut + kTileRows - 1) / kTileRows;
  const u32 expert = block / kTiles, first = block % kTiles * kTileRows;
  const PairGroup group = pair_group(row, experts, pairs, step);
  const PairRange range = pairs_of_block(group, expert);
  for (u32 at = range.begin; at < range.end; at += kColumns)
    tile_products(
        weight + (static_cast<u64>(expert) * kOut + first) * kRowBytes,
        kOut - first, books + expert * kBookBytes, h,
        range.end - at < kColumns ? range.end - at : kColumns,
        [&](u32 v) { return static_cast<u32>(pairs[at + v]); },
        [&](u32 v, u32 i, float y) {
          result[static_cast<u64>(pairs[at + v]) * kOut + first + i] = y;
        });
}
