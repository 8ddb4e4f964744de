// iq3_s.h - ggml's IQ3_S: 256 elements in 110 bytes; an f16 d, 64 bytes of
// indices of grid entries of 4 elements, 8 bytes of their ninth bits, 32 bytes
// of signs, 4 bytes of nibbles c (one for 32 elements);
// value = d (2 c + 1) level.
#include "formats.h"
#include "grids.h"

using namespace format_iq3_s;

/// Where 32 consecutive elements of a row are.
struct Group {
  const u8 *indices, *signs;
  u32 high; // ninth bits of 8 indices
  u32 c;
  float d;
};

DS4_DEVICE Group group_at(const u8 *row, u32 b) {
  const u8 *block = row + b / 8 * kBlockBytes;
  const u32 number = b % 8;
  const u32 c = block[106 + number / 2] >> (number % 2 * 4) & 15;
  return {block + 2 + number * 8, block + 74 + number * 4, block[66 + number],
          c, load_f16(block)};
}

DS4_DEVICE u64 eight_at(const Group &group, u32 l) {
  const u32 first = group.indices[2 * l] | (group.high >> (2 * l) & 1) << 8;
  const u32 second = group.indices[2 * l + 1] | (group.high >> (2 * l + 1) & 1)
                                                    << 8;
  return iq3s_grid[first] | static_cast<u64>(iq3s_grid[second]) << 32;
}

DS4_DEVICE u32 signs_at(const Group &group, u32 l) { return group.signs[l]; }

DS4_DEVICE float scale_at(const Group &group) {
  return group.d * static_cast<float>(2 * group.c + 1);
}

#include "grid_dot.h"
