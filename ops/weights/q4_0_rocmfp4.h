// q4_0_rocmfp4.h - ROCmFP4 (type 100): 16 bytes of nibbles, a UE4M3 scale byte
// for each half; element j is the low nibble of byte j, 16 + j the high one.
#include "codes.h"
#include "formats.h"

using namespace format_q4_0_rocmfp4;

/// Where 32 consecutive elements of a row are.
struct Group {
  const u8 *block;
};

DS4_DEVICE Group group_at(const u8 *row, u32 b) {
  return {row + b * kBlockBytes};
}

DS4_DEVICE i32 level_at(const Group &group, u32 i) {
  return fp4_level(group.block[0 + i % 16] >> (i / 16 * 4) & 15);
}

DS4_DEVICE float scale_at(const Group &group, u32 part) {
  return f32_from_ue4m3(group.block[16 + part]);
}

#include "group_dot.h"
