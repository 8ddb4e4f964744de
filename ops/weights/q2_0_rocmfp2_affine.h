// q2_0_rocmfp2_affine.h - ROCmFP2 in the affine reading (type 107): 8 bytes of
// 2-bit codes, UE4M3 bytes of scale and offset; value = scale code - offset.
#include "codes.h"
#include "formats.h"

using namespace format_q2_0_rocmfp2_affine;

/// Where 32 consecutive elements of a row are.
struct Group {
  const u8 *block;
};

DS4_DEVICE Group group_at(const u8 *row, u32 b) {
  return {row + b * kBlockBytes};
}

DS4_DEVICE i32 level_at(const Group &group, u32 i) {
  return static_cast<i32>(fp2_code(group.block, i));
}

DS4_DEVICE float scale_at(const Group &group, u32) {
  return f32_from_ue4m3(group.block[8]);
}

DS4_DEVICE float minimum_at(const Group &group, u32) {
  return -f32_from_ue4m3(group.block[9]);
}

#include "group_dot_minimum.h"
