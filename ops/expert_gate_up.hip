// expert_gate_up.hip - gate and up products of the chosen experts. A wave does
// kWaveRows rows of both matrices of one expert (products.h), for all tokens of
// a group that use it (expert_pairs.h).
//
//   gate_out[t, i] = gate[experts[t, i]] x[t], up_out likewise
//
// | constant | |
// |---|---|
// | kIn, kOut | columns and rows of an expert's matrix |
// | kUsed | experts of a token |
// | kColumns | tokens that a block does; `row` counts groups of so many |
// | kBookLevels | levels of a learned book; 0: the format has none |
// | kInt8 | 1: x is int8, segmented order; 0: f32, strided order |

#include "expert_pairs.h"
#include "products.h"

DS4_DEVICE void run(u32 block, u32 row, const u8 *__restrict__ x,
                    const i32 *__restrict__ experts,
                    const u8 *__restrict__ gate, const u8 *__restrict__ up,
                    const u8 *__restrict__ gate_books,
                    const u8 *__restrict__ up_books,
                    float *__restrict__ gate_out, float *__restrict__ up_out,
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
  const u32 book = expert * kBookBytes;
  Columns columns;
  columns.count = led.count;
  for (u32 c = 0; c < kColumns; ++c) {
    columns.x[c] =
        x + static_cast<u64>(begin + led.pair[c] / kUsed) * kVectorBytes;
    columns.y[c] =
        gate_out + (static_cast<u64>(begin) * kUsed + led.pair[c]) * kOut;
  }
  wave_products(gate + matrix, kOut, columns, gate_books + book, first);
  for (u32 c = 0; c < kColumns; ++c)
    columns.y[c] =
        up_out + (static_cast<u64>(begin) * kUsed + led.pair[c]) * kOut;
  wave_products(up + matrix, kOut, columns, up_books + book, first);
}
