// q5_0.h - ggml's Q5_0: an f16 scale d, a word of fifth bits, 16 bytes of
// nibbles as in Q4_0; value = d (code - 16).
#include "formats.h"

using namespace format_q5_0;

/// Where 32 consecutive elements of a row are.
struct Group {
  const u8 *block;
  u32 high; // fifth bits
};

DS4_DEVICE Group group_at(const u8 *row, u32 b) {
  const u8 *block = row + b * kBlockBytes;
  return {block, load_u32(block + 2)};
}

DS4_DEVICE i32 level_at(const Group &group, u32 i) {
  const i32 low = group.block[6 + i % 16] >> (i / 16 * 4) & 15;
  return (low | static_cast<i32>(group.high >> i & 1) << 4) - 16;
}

DS4_DEVICE float scale_at(const Group &group, u32) {
  return load_f16(group.block);
}

#include "group_dot.h"
