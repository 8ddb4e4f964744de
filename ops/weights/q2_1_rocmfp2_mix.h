// q2_1_rocmfp2_mix.h - adaptive ROCmFP2 (type 106): 2-bit codes as in type 107;
// the byte of a half is a UE4M3 scale in bits 0-6 and the codebook in bit 7.
// books: the expert's f32 [2, 4], or of each book 4 int8 levels and an f32
// (book_ratio).
#include "codes.h"
#include "formats.h"

using namespace format_q2_1_rocmfp2_mix;

/// Element i of a row.
DS4_DEVICE float weight_at(const u8 *row, u32 i, const float *books) {
  const u8 *block = row + i / 32 * kBlockBytes;
  const u32 meta = block[8 + i % 32 / 16];
  return books[4 * (meta >> 7) + fp2_code(block, i % 32)] *
         f32_from_ue4m3(meta & 0x7f);
}

/// acc + weights of block b times 32 codes of scale d, an fma a half.
DS4_DEVICE float block_dot(const u8 *row, u32 b, const i8 *codes, float d,
                           float acc, const u8 *books) {
  const u8 *block = row + b * kBlockBytes;
  for (u32 half = 0; half < 2; ++half) {
    const u32 meta = block[8 + half];
    const u8 *book = books + 8 * (meta >> 7);
    const float scale =
        f32_from_ue4m3(meta & 0x7f) * book_ratio<4>(books, meta >> 7 != 0);
    const u32 sixteen = load_u32(block + 4 * half);
    const u32 levels = load_u32(book);
    i32 sum = 0;
    DS4_VECTORISE
    for (u32 j = 0; j < 16; ++j)
      sum += static_cast<i8>(levels >> (8 * (sixteen >> (2 * j) & 3))) *
             codes[16 * half + j];
    acc = fma_f32(static_cast<float>(sum) * scale, d, acc);
  }
  return acc;
}

DS4_DEVICE void levels_of(const u8 *block, u32 (&levels)[8], const u8 *books) {
  // Both books in registers, for all blocks of the expert.
  const u32 tables[2] = {load_word(books), load_word(books + 8)};
  DS4_REGISTERS
  for (u32 half = 0; half < 2; ++half)
    fp2_levels(load_u32(block + 4 * half),
               has_bit(load_u16(block + 8), 8 * half + 7) ? tables[1]
                                                          : tables[0],
               levels + 4 * half);
}
DS4_DEVICE void order_codes(u32 (&x)[8]) { order_fp2(x); }
DS4_DEVICE void restore_levels(u32 (&x)[8]) { restore_fp2(x); }

DS4_DEVICE float scale_of(const u8 *block, u32 part, const u8 *books) {
  const u32 metas = load_u16(block + 8);
  return f32_from_valid_ue4m3(metas, part) *
         book_ratio<4>(books, has_bit(metas, 8 * part + 7));
}

#include "levels_dot.h"
