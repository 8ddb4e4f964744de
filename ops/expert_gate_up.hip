// expert_gate_up.hip - gate and up products of the chosen experts. A wave does
// kWaveRows rows of both matrices of one expert (products.h).
//
//   gate_out[t, i] = gate[experts[t, i]] x[t], up_out likewise
//
// | constant | |
// |---|---|
// | kIn, kOut | columns and rows of an expert's matrix |
// | kUsed | experts of a token |
// | kBookLevels | levels of a learned codebook; 0: the format has none |
// | kInt8 | 1: x is int8, segmented order; 0: f32, strided order |

#include "products.h"

DS4_DEVICE void run(u32 block, const u8 *__restrict__ x,
                    const i32 *__restrict__ experts,
                    const u8 *__restrict__ gate, const u8 *__restrict__ up,
                    const float *__restrict__ gate_books,
                    const float *__restrict__ up_books,
                    float *__restrict__ gate_out, float *__restrict__ up_out,
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
  const u64 matrix = static_cast<u64>(expert) * kOut * kRowBytes;
  const u32 book = expert * 2 * kBookLevels;
  const u32 first = grid_wave(block) % kTiles * kWaveRows;
  x += static_cast<u64>(row) * kVectorBytes;
  wave_product(gate + matrix, kOut, x, gate_books + book, first,
               gate_out + vector * kOut);
  wave_product(up + matrix, kOut, x, up_books + book, first,
               up_out + vector * kOut);
}
