// q4_0_rocmfp4_fast.h - ROCmFP4 fast (type 101): 16 bytes of nibbles, a UE4M3
// scale byte; element j is the low nibble of byte j, 16 + j the high one.
#include "codes.h"
#include "formats.h"

using namespace format_q4_0_rocmfp4_fast;

/// Element i of a row.
DS4_DEVICE float weight_at(const u8 *row, u32 i, const float *) {
  const u8 *block = row + i / 32 * kBlockBytes;
  const i32 code = block[i % 16] >> (i % 32 / 16 * 4) & 15;
  return static_cast<float>(fp4_level(code)) * f32_from_ue4m3(block[16]);
}

/// Element i is its level times the scale of block i / 32.
DS4_DEVICE float plain_level(const u8 *row, u32 i) {
  const u8 *block = row + i / 32 * kBlockBytes;
  return static_cast<float>(fp4_level(block[i % 16] >> (i % 32 / 16 * 4) & 15));
}
DS4_DEVICE float plain_scale(const u8 *row, u32 b) {
  return f32_from_ue4m3(row[b * kBlockBytes + 16]);
}

/// acc + weights of block b times 32 codes of scale d, in one fma.
DS4_DEVICE float block_dot(const u8 *row, u32 b, const i8 *codes, float d,
                           float acc) {
  const u8 *block = row + b * kBlockBytes;
  i32 sum = 0;
  DS4_VECTORISE
  for (u32 j = 0; j < 16; ++j)
    sum += fp4_level(block[j] & 15) * codes[j] +
           fp4_level(block[j] >> 4) * codes[16 + j];
  return fma_f32(static_cast<float>(sum) * f32_from_ue4m3(block[16]), d, acc);
}

DS4_DEVICE void levels_of(const u8 *block, u32 (&levels)[8]) {
  fp4_levels(block, levels);
}
DS4_DEVICE void order_codes(u32 (&x)[8]) { order_fp4(x); }
DS4_DEVICE void restore_levels(u32 (&x)[8]) { restore_fp4(x); }

DS4_DEVICE float scale_of(const u8 *block, u32) {
  return f32_from_valid_ue4m3(block[16], 0);
}

#include "levels_dot.h"
