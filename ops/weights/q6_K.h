// q6_K.h - ggml's Q6_K: 256 elements in 210 bytes; 128 bytes of low nibbles,
// 64 bytes of high bit pairs, 16 int8 scales (one per 16 elements), an f16
// scale d; value = d scale (q - 32).
//
// Of 128 elements, group g of 32 has its nibbles in bytes 32 (g % 2), ..., in
// the high half for g >= 2, and its bit pairs at bit 2 g of 32 bytes.
#include "formats.h"

using namespace format_q6_K;

/// Where 32 consecutive elements of a row are.
struct Group {
  const u8 *low, *high;
  const i8 *scales; // of their two halves
  u32 low_shift, high_shift;
  float d;
};

/// Elements 32 b, ..., 32 b + 31 of a row.
DS4_DEVICE Group group_at(const u8 *row, u32 b) {
  const u8 *block = row + b / 8 * kBlockBytes;
  const u32 half = b / 4 % 2, g = b % 4;
  return {block + 64 * half + 32 * (g % 2),
          block + 128 + 32 * half,
          reinterpret_cast<const i8 *>(block + 192) + 8 * half + 2 * g,
          4 * (g / 2),
          2 * g,
          load_f16(block + 208)};
}

/// Level of element i of a group, -32 ... 31.
DS4_DEVICE i32 level_at(const Group &group, u32 i) {
  const i32 low = group.low[i] >> group.low_shift & 15;
  const i32 high = group.high[i] >> group.high_shift & 3;
  return (low | high << 4) - 32;
}

/// Element i of a row.
DS4_DEVICE float weight_at(const u8 *row, u32 i, const float *) {
  const Group group = group_at(row, i / 32);
  return group.d * static_cast<float>(group.scales[i % 32 / 16]) *
         static_cast<float>(level_at(group, i % 32));
}

/// acc + elements 32 b, ... times 32 codes of scale d, an fma a half.
DS4_DEVICE float block_dot(const u8 *row, u32 b, const i8 *codes, float d,
                           float acc) {
  const Group group = group_at(row, b);
  for (u32 half = 0; half < 2; ++half) {
    i32 sum = 0;
    DS4_VECTORISE
    for (u32 i = 16 * half; i < 16 * half + 16; ++i)
      sum += level_at(group, i) * codes[i];
    const float scale = group.d * static_cast<float>(group.scales[half]);
    acc = fma_f32(static_cast<float>(sum) * scale, d, acc);
  }
  return acc;
}
