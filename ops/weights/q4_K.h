// q4_K.h - ggml's Q4_K: 256 elements in 144 bytes; f16 d and dmin, 12 bytes of
// scales and minimums (one of each for 32 elements), 128 bytes of nibbles;
// value = d scale code - dmin minimum. Of 64 elements the first 32 are the low
// nibbles of 32 bytes.
#include "formats.h"

using namespace format_q4_K;
constexpr u32 kNibbles = 16;

#include "k_nibbles.h"

DS4_DEVICE i32 level_at(const Group &group, u32 i) {
  return nibble_at(group, i);
}

#include "group_dot_minimum.h"
