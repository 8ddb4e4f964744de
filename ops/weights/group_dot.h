// group_dot.h - weight_at and block_dot for a decoder that has declared
//
//   Group group_at(row, b)     where elements 32 b, ..., 32 b + 31 of a row are
//   i32 level_at(group, i)     level of element i of them
//   float scale_at(group, part)
//
// and kScales, the scales of 32 elements. Value: level times scale. The last
// line of a decoder.

/// Element i of a row.
DS4_DEVICE float weight_at(const u8 *row, u32 i, const float *) {
  const Group group = group_at(row, i / 32);
  return static_cast<float>(level_at(group, i % 32)) *
         scale_at(group, i % 32 * kScales / 32);
}

/// acc + elements 32 b, ... times 32 codes of scale d, an fma a scale.
DS4_DEVICE float block_dot(const u8 *row, u32 b, const i8 *codes, float d,
                           float acc) {
  const Group group = group_at(row, b);
  constexpr u32 kWidth = 32 / kScales;
  for (u32 part = 0; part < kScales; ++part) {
    i32 sum = 0;
    DS4_VECTORISE
    for (u32 i = kWidth * part; i < kWidth * (part + 1); ++i)
      sum += level_at(group, i) * codes[i];
    acc = fma_f32(static_cast<float>(sum) * scale_at(group, part), d, acc);
  }
  return acc;
}

DS4_DEVICE void levels_of(const u8 *block, u32 (&levels)[8]) {
  const Group group = group_at(block, 0);
  for (u32 k = 0; k < 8; ++k) {
    levels[k] = 0;
    for (u32 i = 0; i < 4; ++i)
      levels[k] |= static_cast<u32>(level_at(group, 4 * k + i) & 0xff)
                   << (8 * i);
  }
}

DS4_DEVICE void order_codes(u32 (&)[8]) {}
DS4_DEVICE void restore_levels(u32 (&)[8]) {}

DS4_DEVICE float scale_of(const u8 *block, u32 part) {
  return scale_at(group_at(block, 0), part);
}

#include "levels_dot.h"
