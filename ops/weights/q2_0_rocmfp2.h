// q2_0_rocmfp2.h - ROCmFP2, dual reading (type 107): 8 bytes of 2-bit codes, a
// UE4M3 scale byte for each half; level = code - 1.
#include "codes.h"
#include "formats.h"

using namespace format_q2_0_rocmfp2;

/// Element i of a row.
DS4_DEVICE float weight_at(const u8 *row, u32 i, const float *) {
  const u8 *block = row + i / 32 * kBlockBytes;
  const i32 level = static_cast<i32>(fp2_code(block, i % 32)) - 1;
  return static_cast<float>(level) * f32_from_ue4m3(block[8 + i % 32 / 16]);
}

/// acc + weights of block b times 32 codes of scale d, an fma a half.
DS4_DEVICE float block_dot(const u8 *row, u32 b, const i8 *codes, float d,
                           float acc) {
  const u8 *block = row + b * kBlockBytes;
  for (u32 half = 0; half < 2; ++half) {
    const u32 sixteen = load_u32(block + 4 * half);
    i32 sum = 0;
    DS4_VECTORISE
    for (u32 j = 0; j < 16; ++j)
      sum +=
          (static_cast<i32>(sixteen >> (2 * j) & 3) - 1) * codes[16 * half + j];
    acc = fma_f32(static_cast<float>(sum) * f32_from_ue4m3(block[8 + half]), d,
                  acc);
  }
  return acc;
}

DS4_DEVICE void levels_of(const u8 *block, u32 (&levels)[8]) {
  DS4_REGISTERS
  for (u32 half = 0; half < 2; ++half)
    fp2_levels(load_u32(block + 4 * half), 0x020100ffu, levels + 4 * half);
}
DS4_DEVICE void order_codes(u32 (&x)[8]) { order_fp2(x); }
DS4_DEVICE void restore_levels(u32 (&x)[8]) { restore_fp2(x); }

DS4_DEVICE float scale_of(const u8 *block, u32 part) {
  return f32_from_valid_ue4m3(load_u16(block + 8), part);
}

#include "levels_dot.h"
