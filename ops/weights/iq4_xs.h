// iq4_xs.h - ggml's IQ4_XS: 256 elements in 136 bytes; an f16 d, a half word of
// high pairs of scales, 4 bytes of their low nibbles (one scale for 32
// elements), 8 times 16 bytes as in IQ4_NL; value = d (scale - 32) level.
#include "formats.h"

using namespace format_iq4_xs;

/// Where 32 consecutive elements of a row are.
struct Group {
  const u8 *codes;
  i32 scale; // 6 bits
  float d;
};

DS4_DEVICE Group group_at(const u8 *row, u32 b) {
  const u8 *block = row + b / 8 * kBlockBytes;
  const u32 number = b % 8;
  const i32 low = block[4 + number / 2] >> (number % 2 * 4) & 15;
  const i32 high = load_u16(block + 2) >> (number * 2) & 3;
  return {block + 8 + number * 16, low | high << 4, load_f16(block)};
}

DS4_DEVICE i32 level_at(const Group &group, u32 i) {
  return kLevels[group.codes[i % 16] >> (i / 16 * 4) & 15];
}

DS4_DEVICE float scale_at(const Group &group, u32) {
  return group.d * static_cast<float>(group.scale - 32);
}

#include "group_dot.h"
