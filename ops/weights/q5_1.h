// q5_1.h - ggml's Q5_1: f16 d and m, a word of fifth bits, 16 bytes of nibbles
// as in Q4_0; value = d code + m.
#include "formats.h"

using namespace format_q5_1;

/// Where 32 consecutive elements of a row are.
struct Group {
  const u8 *block;
  u32 high; // fifth bits
};

DS4_DEVICE Group group_at(const u8 *row, u32 b) {
  const u8 *block = row + b * kBlockBytes;
  return {block, load_u32(block + 4)};
}

DS4_DEVICE i32 level_at(const Group &group, u32 i) {
  const i32 low = group.block[8 + i % 16] >> (i / 16 * 4) & 15;
  return low | static_cast<i32>(group.high >> i & 1) << 4;
}

DS4_DEVICE float scale_at(const Group &group, u32) {
  return load_f16(group.block);
}

DS4_DEVICE float minimum_at(const Group &group, u32) {
  return load_f16(group.block + 2);
}

#include "group_dot_minimum.h"
