// iq2_xxs.h - ggml's IQ2_XXS: 256 elements in 66 bytes; an f16 d, then 8 bytes
// for each 32 elements: 4 indices of grid entries of 8 elements, a word of 4
// times 7 bits of signs and 4 bits c; value = d (2 c + 1) / 8 level.
#include "even_signs.h"
#include "formats.h"
#include "grids.h"

using namespace format_iq2_xxs;

/// Where 32 consecutive elements of a row are.
struct Group {
  const u8 *indices;
  u32 word;
  float d;
};

DS4_DEVICE Group group_at(const u8 *row, u32 b) {
  const u8 *block = row + b / 8 * kBlockBytes;
  const u8 *indices = block + 2 + b % 8 * 8;
  return {indices, load_u32(indices + 4), load_f16(block)};
}

DS4_DEVICE u64 eight_at(const Group &group, u32 l) {
  return iq2xxs_grid[group.indices[l]];
}

DS4_DEVICE u32 signs_at(const Group &group, u32 l) {
  return even_signs(group.word >> (7 * l) & 127);
}

DS4_DEVICE float scale_at(const Group &group) {
  return group.d * static_cast<float>(2 * (group.word >> 28) + 1) * 0.125f;
}

#include "grid_dot.h"
