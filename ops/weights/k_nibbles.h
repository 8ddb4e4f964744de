// k_nibbles.h - what ggml's Q4_K and Q5_K share: f16 d and dmin, the pairs of
// k_pairs.h behind them, and nibbles, of which the first 32 of 64 elements are
// the low ones of 32 bytes. Included after
//
//   constexpr u32 kBlockBytes, kNibbles  (offset of the nibbles in a block)

#include "k_pairs.h"

/// Where 32 consecutive elements of a row are.
struct Group {
  const u8 *block, *nibbles;
  u32 number; // in the block
  u32 shift;
  float d, dmin;
};

DS4_DEVICE Group group_at(const u8 *row, u32 b) {
  const u8 *block = row + b / 8 * kBlockBytes;
  const u32 number = b % 8;
  return {block,           block + kNibbles + number / 2 * 32,
          number,          number % 2 * 4,
          load_f16(block), load_f16(block + 2)};
}

DS4_DEVICE i32 nibble_at(const Group &group, u32 i) {
  return group.nibbles[i] >> group.shift & 15;
}

DS4_DEVICE float scale_at(const Group &group, u32) {
  return group.d * static_cast<float>(k_scale(group.block + 4, group.number));
}

DS4_DEVICE float minimum_at(const Group &group, u32) {
  return -(group.dmin *
           static_cast<float>(k_minimum(group.block + 4, group.number)));
}
