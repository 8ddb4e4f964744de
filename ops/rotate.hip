// rotate.hip - inputs of rotated experts times the 32-wide Hadamard matrix,
// those of other experts copied. A thread does 32 values.
//
// | constant | |
// |---|---|
// | kWidth | K, values of a vector |
// | kVectors | vectors of a row, an expert each |

#include "elements.h"
#include "rotation.h"

DS4_DEVICE void run(u32 block, u32 row, const float *__restrict__ x,
                    const i32 *__restrict__ experts,
                    const i32 *__restrict__ rotations,
                    float *__restrict__ result, const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  constexpr u32 kBlocks = kWidth / 32;
  for (u32 i = tile_begin(block); i < tile_end(block, kVectors * kBlocks);
       i += kThreads) {
    const u64 vector = static_cast<u64>(row) * kVectors + i / kBlocks;
    const u64 first = vector * kWidth + 32 * (i % kBlocks);
    float values[32];
    for (u32 j = 0; j < 32; ++j)
      values[j] = x[first + j];
    if (rotations[experts[vector]] != 0)
      rotate_block(values);
    for (u32 j = 0; j < 32; ++j)
      result[first + j] = values[j];
  }
}
