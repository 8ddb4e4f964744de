// q2_K.h - ggml's Q2_K: 256 elements in 84 bytes; a byte for each 16 elements
// (scale in the low nibble, minimum in the high one), 64 bytes of 2-bit codes,
// f16 d and dmin; value = d scale code - dmin minimum. Of 128 elements group g
// of 32 is at bit 2 g of 32 bytes.
#include "formats.h"

using namespace format_q2_K;

/// Where 32 consecutive elements of a row are.
struct Group {
  const u8 *codes, *pairs; // pairs: a byte a half
  u32 shift;
  float d, dmin;
};

DS4_DEVICE Group group_at(const u8 *row, u32 b) {
  const u8 *block = row + b / 8 * kBlockBytes;
  return {block + 16 + b % 8 / 4 * 32, block + b % 8 * 2, b % 4 * 2,
          load_f16(block + 80), load_f16(block + 82)};
}

DS4_DEVICE i32 level_at(const Group &group, u32 i) {
  return group.codes[i] >> group.shift & 3;
}

DS4_DEVICE float scale_at(const Group &group, u32 part) {
  return group.d * static_cast<float>(group.pairs[part] & 15);
}

DS4_DEVICE float minimum_at(const Group &group, u32 part) {
  return -(group.dmin * static_cast<float>(group.pairs[part] >> 4));
}

#include "group_dot_minimum.h"
