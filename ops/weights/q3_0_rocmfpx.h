// q3_0_rocmfpx.h - ROCmFP3 (type 104): a stream of 32 3-bit codes, a UE4M3
// scale byte for each half.
#include "codes.h"
#include "formats.h"

using namespace format_q3_0_rocmfpx;

/// Element i of a row.
DS4_DEVICE float weight_at(const u8 *row, u32 i, const float *) {
  const u8 *block = row + i / 32 * kBlockBytes;
  const i32 code = static_cast<i32>(fp3_code(block, i % 32));
  return static_cast<float>(fp3_level(code)) *
         f32_from_ue4m3(block[12 + i % 32 / 16]);
}

/// acc + weights of block b times 32 codes of scale d, an fma a half.
DS4_DEVICE float block_dot(const u8 *row, u32 b, const i8 *codes, float d,
                           float acc) {
  const u8 *block = row + b * kBlockBytes;
  for (u32 half = 0; half < 2; ++half) {
    i32 sum = 0;
    for (u32 g = 2 * half; g < 2 * half + 2; ++g) {
      const u32 eight = fp3_eight(block, g);
      DS4_VECTORISE
      for (u32 j = 0; j < 8; ++j)
        sum += fp3_level(static_cast<i32>(eight >> (3 * j) & 7)) *
               codes[8 * g + j];
    }
    acc = fma_f32(static_cast<float>(sum) * f32_from_ue4m3(block[12 + half]), d,
                  acc);
  }
  return acc;
}

DS4_DEVICE void levels_of(const u8 *block, u32 (&levels)[8]) {
  fp3_levels(block, {0x04020100u, 0x04020100u}, {0xfcfeff00u, 0xfcfeff00u},
             levels);
}
DS4_DEVICE void order_codes(u32 (&)[8]) {}
DS4_DEVICE void restore_levels(u32 (&)[8]) {}

DS4_DEVICE float scale_of(const u8 *block, u32 part) {
  return f32_from_valid_ue4m3(load_u16(block + 12), part);
}

#include "levels_dot.h"
