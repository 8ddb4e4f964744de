// q3_1_rocmfp3_mix.h - adaptive ROCmFP3 (type 105): 3-bit codes as in type 104;
// the byte of a half is a UE4M3 scale in bits 0-6 and the codebook in bit 7.
// books: the expert's f32 [2, 8], or of each book 8 int8 levels and an f32
// (book_ratio).
#include "codes.h"
#include "formats.h"

using namespace format_q3_1_rocmfp3_mix;

/// Element i of a row.
DS4_DEVICE float weight_at(const u8 *row, u32 i, const float *books) {
  const u8 *block = row + i / 32 * kBlockBytes;
  const u32 meta = block[12 + i % 32 / 16];
  return books[8 * (meta >> 7) + fp3_code(block, i % 32)] *
         f32_from_ue4m3(meta & 0x7f);
}

/// acc + weights of block b times 32 codes of scale d, an fma a half.
DS4_DEVICE float block_dot(const u8 *row, u32 b, const i8 *codes, float d,
                           float acc, const u8 *books) {
  const u8 *block = row + b * kBlockBytes;
  for (u32 half = 0; half < 2; ++half) {
    const u32 meta = block[12 + half];
    const u8 *book = books + 12 * (meta >> 7);
    const float scale =
        f32_from_ue4m3(meta & 0x7f) * book_ratio<8>(books, meta >> 7 != 0);
    const u32 low = load_u32(book), high = load_u32(book + 4);
    i32 sum = 0;
    for (u32 g = 2 * half; g < 2 * half + 2; ++g) {
      const u32 eight = fp3_eight(block, g);
      DS4_VECTORISE
      for (u32 j = 0; j < 8; ++j) {
        const u32 code = eight >> (3 * j) & 7;
        const u32 four = code & 4 ? high : low;
        sum += static_cast<i8>(four >> (8 * (code & 3))) * codes[8 * g + j];
      }
    }
    acc = fma_f32(static_cast<float>(sum) * scale, d, acc);
  }
  return acc;
}

DS4_DEVICE void levels_of(const u8 *block, u32 (&levels)[8], const u8 *books) {
  // Both books in registers, for all blocks of the expert.
  const u32 lows[2] = {load_word(books), load_word(books + 12)};
  const u32 highs[2] = {load_word(books + 4), load_word(books + 16)};
  u32 low[2], high[2];
  DS4_REGISTERS
  for (u32 half = 0; half < 2; ++half) {
    const bool second = has_bit(load_u16(block + 12), 8 * half + 7);
    low[half] = second ? lows[1] : lows[0];
    high[half] = second ? highs[1] : highs[0];
  }
  fp3_levels(block, low, high, levels);
}
DS4_DEVICE void order_codes(u32 (&)[8]) {}
DS4_DEVICE void restore_levels(u32 (&)[8]) {}

DS4_DEVICE float scale_of(const u8 *block, u32 part, const u8 *books) {
  const u32 metas = load_u16(block + 12);
  return f32_from_valid_ue4m3(metas, part) *
         book_ratio<8>(books, has_bit(metas, 8 * part + 7));
}

#include "levels_dot.h"
