// q5_K.h - ggml's Q5_K: 256 elements in 176 bytes; f16 d and dmin, 12 bytes of
// scales and minimums as in Q4_K, 32 bytes of fifth bits (group g of 32
// elements at bit g), 128 bytes of nibbles as in Q4_K.
#include "formats.h"

using namespace format_q5_K;
constexpr u32 kNibbles = 48;

#include "k_nibbles.h"

DS4_DEVICE i32 level_at(const Group &group, u32 i) {
  const u8 *high = group.block + 16;
  return nibble_at(group, i) | (high[i] >> group.number & 1) << 4;
}

#include "group_dot_minimum.h"
