// q3_K.h - ggml's Q3_K: 256 elements in 110 bytes; 32 bytes of third bits, 64
// bytes of low pairs, 12 bytes of 6-bit scales (one for each 16 elements), an
// f16 d; value = d (scale - 32) (code - 4). Of 128 elements group g of 32 has
// its pairs at bit 2 g of 32 bytes; of 256, its third bits at bit g.
#include "formats.h"

using namespace format_q3_K;

/// Where 32 consecutive elements of a row are.
struct Group {
  const u8 *low, *high, *scales;
  u32 low_shift, high_shift;
  u32 first; // scale of the first half
  float d;
};

DS4_DEVICE Group group_at(const u8 *row, u32 b) {
  const u8 *block = row + b / 8 * kBlockBytes;
  return {block + 32 + b % 8 / 4 * 32,
          block,
          block + 96,
          b % 4 * 2,
          b % 8,
          b % 8 * 2,
          load_f16(block + 108)};
}

DS4_DEVICE i32 level_at(const Group &group, u32 i) {
  const i32 low = group.low[i] >> group.low_shift & 3;
  const i32 high = group.high[i] >> group.high_shift & 1;
  return (low | high << 2) - 4;
}

DS4_DEVICE float scale_at(const Group &group, u32 part) {
  // Of 16 scales, number n has its low nibble in byte n % 8 and its high pair
  // at bit 2 (n / 4) of byte 8 + n % 4.
  const u32 n = group.first + part;
  const i32 low = group.scales[n % 8] >> (n / 8 * 4) & 15;
  const i32 high = group.scales[8 + n % 4] >> (n / 4 * 2) & 3;
  return group.d * static_cast<float>((low | high << 4) - 32);
}

#include "group_dot.h"
