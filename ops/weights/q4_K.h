// q4_K.h - ggml's Q4_K: 256 elements in 144 bytes; f16 d and dmin, 12 bytes of
// scales and minimums (one of each for 32 elements), 128 bytes of nibbles;
// value = d scale code - dmin minimum. Of 64 elements the first 32 are the low
// nibbles of 32 bytes.
#include "formats.h"
#include "k_pairs.h"

using namespace format_q4_K;

/// Where 32 consecutive elements of a row are.
struct Group {
  const u8 *codes, *pairs;
  u32 number; // in the block
  u32 shift;
  float d, dmin;
};

DS4_DEVICE Group group_at(const u8 *row, u32 b) {
  const u8 *block = row + b / 8 * kBlockBytes;
  const u32 number = b % 8;
  return {block + 16 + number / 2 * 32,
          block + 4,
          number,
          number % 2 * 4,
          load_f16(block),
          load_f16(block + 2)};
}

DS4_DEVICE i32 level_at(const Group &group, u32 i) {
  return group.codes[i] >> group.shift & 15;
}

DS4_DEVICE float scale_at(const Group &group, u32) {
  return group.d * static_cast<float>(k_scale(group.pairs, group.number));
}

DS4_DEVICE float minimum_at(const Group &group, u32) {
  return -(group.dmin *
           static_cast<float>(k_minimum(group.pairs, group.number)));
}

#include "group_dot_minimum.h"
