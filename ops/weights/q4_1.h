// q4_1.h - ggml's Q4_1: f16 d and m, then 16 bytes of nibbles as in Q4_0;
// value = d code + m.
#include "formats.h"

using namespace format_q4_1;

/// Where 32 consecutive elements of a row are.
struct Group {
  const u8 *block;
};

DS4_DEVICE Group group_at(const u8 *row, u32 b) {
  return {row + b * kBlockBytes};
}

DS4_DEVICE i32 level_at(const Group &group, u32 i) {
  return group.block[4 + i % 16] >> (i / 16 * 4) & 15;
}

DS4_DEVICE float scale_at(const Group &group, u32) {
  return load_f16(group.block);
}

DS4_DEVICE float minimum_at(const Group &group, u32) {
  return load_f16(group.block + 2);
}

#include "group_dot_minimum.h"
