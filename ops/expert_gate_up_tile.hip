// expert_gate_up_tile.hip - gate and up products of the chosen experts for the
// pairs of a whole step, by tiles (tile.h): a block does kTileRows rows of one
// of the two matrices of an expert, for all its pairs.
//
//   gate_out[t, i] = gate[experts[t, i]] x[t], up_out likewise
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

DS4_DEVICE void run(u32 block, u32 row, const u8 *__restrict__ x,
                    const i32 *__restrict__ experts,
                    const u8 *__restrict__ gate, const u8 *__restrict__ up,
                    const u8 *__restrict__ gate_books,
                    const u8 *__restrict__ up_books,
                    const i32 *__restrict__ pairs, float *__restrict__ gate_out,
                    float *__restrict__ up_out, const Step *step) {
  constexpr u32 kTiles = (kOut + kTileRows - 1) / kTileRows;
  const u32 expert = block / (2 * kTiles), first = block % kTiles * kTileRows;
  const bool is_up = block / kTiles % 2 != 0;
  const PairGroup group = pair_group(row, experts, pairs, step);
  const PairRange range = pairs_of_block(group, expert);
  const u8 *matrix = (is_up ? up : gate) +
                     (static_cast<u64>(expert) * kOut + first) * kRowBytes;
  const u8 *books = (is_up ? up_books : gate_books) + expert * kBookBytes;
  float *result = is_up ? up_out : gate_out;
  for (u32 at = range.begin; at < range.end; at += kColumns)
    tile_products(
        matrix, kOut - first, books, x,
        range.end - at < kColumns ? range.end - at : kColumns,
        [&](u32 v) { return static_cast<u32>(pairs[at + v]) / kUsed; },
        [&](u32 v, u32 i, float y) {
          result[static_cast<u64>(pairs[at + v]) * kOut + first + i] = y;
        });
}
