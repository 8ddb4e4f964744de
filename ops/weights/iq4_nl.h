// iq4_nl.h - ggml's IQ4_NL: an f16 scale d, then 16 bytes of nibbles as in Q4_0
// that index 16 uneven levels; value = d level.
#include "formats.h"

using namespace format_iq4_nl;

/// Where 32 consecutive elements of a row are.
struct Group {
  const u8 *block;
};

DS4_DEVICE Group group_at(const u8 *row, u32 b) {
  return {row + b * kBlockBytes};
}

DS4_DEVICE i32 level_at(const Group &group, u32 i) {
  return kLevels[group.block[2 + i % 16] >> (i / 16 * 4) & 15];
}

DS4_DEVICE float scale_at(const Group &group, u32) {
  return load_f16(group.block);
}

#include "group_dot.h"
