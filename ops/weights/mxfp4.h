// mxfp4.h - OCP MXFP4 as ggml stores it: an exponent byte e, then 16 bytes of
// nibbles as in Q4_0, E2M1 codes; levels are doubled, value = level 2^(e -
// 128).
#include "formats.h"

using namespace format_mxfp4;

/// Where 32 consecutive elements of a row are.
struct Group {
  const u8 *block;
};

DS4_DEVICE Group group_at(const u8 *row, u32 b) {
  return {row + b * kBlockBytes};
}

DS4_DEVICE i32 level_at(const Group &group, u32 i) {
  return kLevels[group.block[1 + i % 16] >> (i / 16 * 4) & 15];
}

DS4_DEVICE float scale_at(const Group &group, u32) {
  const u32 e = group.block[0];
  // Below 2^-126 a subnormal number.
  return float_of(e < 2 ? 0x200000u << e : (e - 1) << 23);
}

#include "group_dot.h"
