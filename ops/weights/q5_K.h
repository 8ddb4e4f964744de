// q5_K.h - ggml's Q5_K: 256 elements in 176 bytes; f16 d and dmin, 12 bytes of
// scales and minimums as in Q4_K, 32 bytes of fifth bits (group g of 32
// elements at bit g), 128 bytes of nibbles as in Q4_K.
#include "formats.h"
#include "k_pairs.h"

using namespace format_q5_K;

/// Where 32 consecutive elements of a row are.
struct Group {
  const u8 *codes, *high, *pairs;
  u32 number; // in the block
  u32 shift;
  float d, dmin;
};

DS4_DEVICE Group group_at(const u8 *row, u32 b) {
  const u8 *block = row + b / 8 * kBlockBytes;
  const u32 number = b % 8;
  return {block + 48 + number / 2 * 32,
          block + 16,
          block + 4,
          number,
          number % 2 * 4,
          load_f16(block),
          load_f16(block + 2)};
}

DS4_DEVICE i32 level_at(const Group &group, u32 i) {
  const i32 low = group.codes[i] >> group.shift & 15;
  return low | (group.high[i] >> group.number & 1) << 4;
}

DS4_DEVICE float scale_at(const Group &group, u32) {
  return group.d * static_cast<float>(k_scale(group.pairs, group.number));
}

DS4_DEVICE float minimum_at(const Group &group, u32) {
  return -(group.dmin *
           static_cast<float>(k_minimum(group.pairs, group.number)));
}

#include "group_dot_minimum.h"
