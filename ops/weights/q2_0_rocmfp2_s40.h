// q2_0_rocmfp2_s40.h - ROCmFP2 with levels -4, -1, 1, 4 (type 111, also written
// as 107): 8 bytes of 2-bit codes, a UE4M3 scale byte for each half.
#include "codes.h"
#include "formats.h"

using namespace format_q2_0_rocmfp2_s40;

/// Where 32 consecutive elements of a row are.
struct Group {
  const u8 *block;
};

DS4_DEVICE Group group_at(const u8 *row, u32 b) {
  return {row + b * kBlockBytes};
}

DS4_DEVICE i32 level_at(const Group &group, u32 i) {
  return kLevels[fp2_code(group.block, i)];
}

DS4_DEVICE float scale_at(const Group &group, u32 part) {
  return f32_from_ue4m3(group.block[8 + part]);
}

#include "group_dot.h"
