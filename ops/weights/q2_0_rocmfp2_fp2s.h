// q2_0_rocmfp2_fp2s.h - ROCmFP2 in the reading fp2s (type 107): as in the dual
// reading, but bit 7 of a scale byte negates the levels of its half.
#include "codes.h"
#include "formats.h"

using namespace format_q2_0_rocmfp2_fp2s;

/// Where 32 consecutive elements of a row are.
struct Group {
  const u8 *block;
};

DS4_DEVICE Group group_at(const u8 *row, u32 b) {
  return {row + b * kBlockBytes};
}

DS4_DEVICE i32 level_at(const Group &group, u32 i) {
  const i32 level = static_cast<i32>(fp2_code(group.block, i)) - 1;
  return group.block[8 + i / 16] & 0x80 ? -level : level;
}

DS4_DEVICE float scale_at(const Group &group, u32 part) {
  return f32_from_ue4m3(group.block[8 + part] & 0x7f);
}

#include "group_dot.h"
