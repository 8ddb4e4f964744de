// q4_0.h - ggml's Q4_0: an f16 scale d, then 16 bytes of nibbles; element j is
// the low nibble of byte j, 16 + j the high one; value = d (code - 8).
#include "formats.h"

using namespace format_q4_0;

/// Where 32 consecutive elements of a row are.
struct Group {
  const u8 *block;
};

DS4_DEVICE Group group_at(const u8 *row, u32 b) {
  return {row + b * kBlockBytes};
}

DS4_DEVICE i32 level_at(const Group &group, u32 i) {
  return (group.block[2 + i % 16] >> (i / 16 * 4) & 15) - 8;
}

DS4_DEVICE float scale_at(const Group &group, u32) {
  return load_f16(group.block);
}

#include "group_dot.h"
