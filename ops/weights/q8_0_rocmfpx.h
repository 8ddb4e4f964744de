// q8_0_rocmfpx.h - ROCmFP8 (type 103): 32 int8, then a UE4M3 scale byte.
#include "formats.h"

using namespace format_q8_0_rocmfpx;

/// Where 32 consecutive elements of a row are.
struct Group {
  const u8 *block;
};

DS4_DEVICE Group group_at(const u8 *row, u32 b) {
  return {row + b * kBlockBytes};
}

DS4_DEVICE i32 level_at(const Group &group, u32 i) {
  return static_cast<i8>(group.block[i]);
}

DS4_DEVICE float scale_at(const Group &group, u32) {
  return f32_from_ue4m3(group.block[32]);
}

#include "group_dot.h"
