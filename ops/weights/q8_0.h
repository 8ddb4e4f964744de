// q8_0.h - ggml's Q8_0: an f16 scale d, then 32 int8; value = d q.
#include "formats.h"

using namespace format_q8_0;

/// Element i of a row.
DS4_DEVICE float weight_at(const u8 *row, u32 i, const float *) {
  const u8 *block = row + i / 32 * kBlockBytes;
  return load_f16(block) *
         static_cast<float>(static_cast<i8>(block[2 + i % 32]));
}

/// acc + weights of block b times 32 codes of scale d, in one fma.
DS4_DEVICE float block_dot(const u8 *row, u32 b, const i8 *codes, float d,
                           float acc) {
  const u8 *block = row + b * kBlockBytes;
  i32 sum = 0;
  DS4_VECTORISE
  for (u32 i = 0; i < 32; ++i)
    sum += static_cast<i8>(block[2 + i]) * codes[i];
  return fma_f32(static_cast<float>(sum) * load_f16(block), d, acc);
}

/// The levels of a block as int8.
DS4_DEVICE void levels_of(const u8 *block, u32 (&levels)[8]) {
  __builtin_memcpy(levels, block + 2, sizeof levels);
}
DS4_DEVICE void order_codes(u32 (&)[8]) {}
DS4_DEVICE void restore_levels(u32 (&)[8]) {}

DS4_DEVICE float scale_of(const u8 *block, u32) { return load_f16(block); }

#include "levels_dot.h"
