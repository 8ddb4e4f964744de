// iq3_xxs.h - ggml's IQ3_XXS: 256 elements in 98 bytes; an f16 d, 64 indices of
// grid entries of 4 elements, then for each 32 elements a word of 4 times 7
// bits of signs and 4 bits c; value = d (2 c + 1) / 4 level.
#include "even_signs.h"
#include "formats.h"
#include "grids.h"

using namespace format_iq3_xxs;

/// Where 32 consecutive elements of a row are.
struct Group {
  const u8 *indices;
  u32 word;
  float d;
};

DS4_DEVICE Group group_at(const u8 *row, u32 b) {
  const u8 *block = row + b / 8 * kBlockBytes;
  return {block + 2 + b % 8 * 8, load_u32(block + 66 + b % 8 * 4),
          load_f16(block)};
}

DS4_DEVICE u64 eight_at(const Group &group, u32 l) {
  return iq3xxs_grid[group.indices[2 * l]] |
         static_cast<u64>(iq3xxs_grid[group.indices[2 * l + 1]]) << 32;
}

DS4_DEVICE u32 signs_at(const Group &group, u32 l) {
  return even_signs(group.word >> (7 * l) & 127);
}

DS4_DEVICE float scale_at(const Group &group) {
  return group.d * static_cast<float>(2 * (group.word >> 28) + 1) * 0.25f;
}

#include "grid_dot.h"
