// expert_gate_up.hip - gate and up products of the chosen experts. A wave does
// kWaveRows rows of both matrices of one expert (products.h), for the pairs
// that expert_pairs.h gives it.
//
//   gate_out[t, i] = gate[experts[t, i]] x[t], up_out likewise
//
// | constant | |
// |---|---|
// | kIn, kOut | columns and rows of an expert's matrix |
// | kUsed | experts of a token |
// | kColumns | pairs that share what is decoded |
// | kGrouped | 1: `pairs` of ds4.group_pairs; 0: `row` counts kColumns tokens |
// | kBookLevels | levels of a learned book; 0: the format has none |
// | kInt8 | 1: x is int8, segmented order; 0: f32, strided order |

#include "expert_pairs.h"
#include "products.h"

DS4_DEVICE void run(u32 block, u32 row, const u8 *__restrict__ x,
                    const i32 *__restrict__ experts,
                    const u8 *__restrict__ gate, const u8 *__restrict__ up,
                    const u8 *__restrict__ gate_books,
                    const u8 *__restrict__ up_books,
                    const i32 *__restrict__ pairs, float *__restrict__ gate_out,
                    float *__restrict__ up_out, const Step *step) {
  constexpr u32 kTiles = (kOut + kWaveRows - 1) / kWaveRows;
  const u32 lead = grid_wave(block) / kTiles;
  const u32 first = grid_wave(block) % kTiles * kWaveRows;
  const PairGroup group = pair_group(row, experts, pairs, step);
  const PairRange range = pairs_of_wave(group, lead);
  for (u32 at = range.begin; at < range.end; at += kColumns) {
    const Pairs led = pairs_at(group, at, range.end);
    const u32 expert = static_cast<u32>(group.experts[led.pair[0]]);
    const u64 matrix = static_cast<u64>(expert) * kOut * kRowBytes;
    const u32 book = expert * kBookBytes;
    Columns columns = {x, gate_out, {}, {}, led.count};
    DS4_REGISTERS
    for (u32 c = 0; c < kColumns; ++c) {
      columns.from[c] = group.first + led.pair[c] / kUsed;
      columns.to[c] = group.first * kUsed + led.pair[c];
    }
    wave_products(gate + matrix, up + matrix, kOut, columns, gate_books + book,
                  up_books + book, up_out, first);
  }
}
