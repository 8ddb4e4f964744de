// codes.h - how the ROCmFPX formats pack codes, and their fixed levels
// (docs/formats.md). A block is 32 codes and one or two scale bytes.
#ifndef DS4_OPS_WEIGHTS_CODES_H
#define DS4_OPS_WEIGHTS_CODES_H

/// Level of a 4-bit code: 0 1 2 3 4 6 8 10, bit 3 is the sign.
DS4_DEVICE i32 fp4_level(i32 code) {
  const i32 index = code & 7;
  const i32 magnitude = index > 4 ? 2 * index - 4 : index;
  return code & 8 ? -magnitude : magnitude;
}

/// Level of a 3-bit code: 0 1 2 4, bit 2 is the sign.
DS4_DEVICE i32 fp3_level(i32 code) {
  const i32 magnitude = (1 << (code & 3)) >> 1;
  return code & 4 ? -magnitude : magnitude;
}

/// Three bytes of a 3-bit stream: codes 8g, ..., 8g + 7, the lowest first.
DS4_DEVICE u32 fp3_eight(const u8 *block, u32 g) {
  const u8 *p = block + 3 * g;
  return load_u16(p) | static_cast<u32>(p[2]) << 16;
}

/// fp3_eight of every g, from whole words; bits 24-31 are others'.
DS4_DEVICE void fp3_eights(const u8 *block, u32 (&eights)[4]) {
  const u32 a = load_u32(block), b = load_u32(block + 4);
  const u32 c = load_u32(block + 8);
  eights[0] = a;
  eights[1] = a >> 24 | b << 8;
  eights[2] = b >> 16 | c << 16;
  eights[3] = c >> 8;
}

/// 3-bit code of element i.
DS4_DEVICE u32 fp3_code(const u8 *block, u32 i) {
  return fp3_eight(block, i / 8) >> (3 * (i % 8)) & 7;
}

/// 2-bit code of element i.
DS4_DEVICE u32 fp2_code(const u8 *block, u32 i) {
  return block[i / 4] >> (2 * (i % 4)) & 3;
}

//===----------------------------------------------------------------------===//
// Four levels at a time, as int8 in a word, by bytes picked from a table.
//===----------------------------------------------------------------------===//

/// Levels of the 16 elements of 2-bit codes in `sixteen`. Byte k of `table` is
/// the level of code k.
DS4_DEVICE void fp2_levels(u32 sixteen, u32 table, u32 *levels) {
  // Nibble n has the code 2n, 2n + 1.
  const u32 even = sixteen & 0x33333333u, odd = sixteen >> 2 & 0x33333333u;
  DS4_REGISTERS
  for (u32 half = 0; half < 2; ++half) {
    const u32 a = pick_bytes(table, 0, even >> (16 * half) & 0xffffu);
    const u32 b = pick_bytes(table, 0, odd >> (16 * half) & 0xffffu);
    levels[2 * half] = pick_bytes(a, b, 0x5140u);
    levels[2 * half + 1] = pick_bytes(a, b, 0x7362u);
  }
}

/// Levels of the 8 elements of 3-bit codes in bits 0-23 of `eight`. Byte k of
/// high:low is the level of code k.
DS4_DEVICE void fp3_levels(u32 eight, u32 low, u32 high, u32 *levels) {
  DS4_REGISTERS
  for (u32 half = 0; half < 2; ++half) {
    const u32 four = eight >> (12 * half);
    const u32 s = (four & 7u) | (four & 0x38u) << 1 | (four & 0x1c0u) << 2 |
                  (four & 0xe00u) << 3;
    levels[half] = pick_bytes(low, high, s);
  }
}

/// Four magnitudes below 128 with signs: 1 in a byte of `minus` negates it.
DS4_DEVICE u32 with_signs(u32 magnitudes, u32 minus) {
  // -m is ~m + 1; bit 7 stays out of the sum, or that of -0 would carry.
  return ((magnitudes ^ minus * 127u) + minus) ^ minus << 7;
}

/// Levels of the 8 elements of 4-bit codes in `eight`: of the low nibbles, then
/// of the high ones.
DS4_DEVICE void fp4_levels(u32 eight, u32 &low, u32 &high) {
  // Magnitudes of nibbles 0 ... 3 and 4 ... 7.
  const u32 a = pick_bytes(0x03020100u, 0x0a080604u, eight & 0x7777u);
  const u32 b = pick_bytes(0x03020100u, 0x0a080604u, eight >> 16 & 0x7777u);
  low = with_signs(pick_bytes(a, b, 0x6420u), eight >> 3 & 0x01010101u);
  high = with_signs(pick_bytes(a, b, 0x7531u), eight >> 7 & 0x01010101u);
}

#endif // DS4_OPS_WEIGHTS_CODES_H
