// k_pairs.h - the eight 6-bit scales and minimums in 12 bytes of ggml's Q4_K
// and Q5_K. The first four scales are in bytes 0-3, their minimums in bytes
// 4-7; the others have low nibbles in bytes 8-11 and high pairs above those.
#ifndef DS4_OPS_WEIGHTS_K_PAIRS_H
#define DS4_OPS_WEIGHTS_K_PAIRS_H

DS4_DEVICE i32 k_scale(const u8 *pairs, u32 n) {
  return n < 4 ? pairs[n] & 63 : (pairs[n + 4] & 15) | (pairs[n - 4] >> 6 << 4);
}

DS4_DEVICE i32 k_minimum(const u8 *pairs, u32 n) {
  return n < 4 ? pairs[n + 4] & 63 : pairs[n + 4] >> 4 | (pairs[n] >> 6 << 4);
}

#endif // DS4_OPS_WEIGHTS_K_PAIRS_H
