// q6_0_rocmfpx.h - ROCmFP6 (type 102): a stream of 32 6-bit codes, a UE4M3
// scale byte for each half; bit 5 of a code is the sign, the others the
// magnitude.
#include "formats.h"

using namespace format_q6_0_rocmfpx;

/// Where 32 consecutive elements of a row are.
struct Group {
  const u8 *block;
};

DS4_DEVICE Group group_at(const u8 *row, u32 b) {
  return {row + b * kBlockBytes};
}

DS4_DEVICE i32 level_at(const Group &group, u32 i) {
  const u32 bit = 6 * i;
  const u32 code = load_u16(group.block + bit / 8) >> (bit % 8) & 63;
  const i32 magnitude = static_cast<i32>(code & 31);
  return code & 32 ? -magnitude : magnitude;
}

DS4_DEVICE float scale_at(const Group &group, u32 part) {
  return f32_from_ue4m3(group.block[24 + part]);
}

#include "group_dot.h"
