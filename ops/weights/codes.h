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

/// 3-bit code of element i.
DS4_DEVICE u32 fp3_code(const u8 *block, u32 i) {
  return fp3_eight(block, i / 8) >> (3 * (i % 8)) & 7;
}

/// 2-bit code of element i.
DS4_DEVICE u32 fp2_code(const u8 *block, u32 i) {
  return block[i / 4] >> (2 * (i % 4)) & 3;
}

//===----------------------------------------------------------------------===//
// Four levels at a time, for dot4. x: int8 of consecutive elements, four a
// word.
//===----------------------------------------------------------------------===//

/// c + the 16 elements of 2-bit codes in `sixteen` times x[0 ... 3]. Byte k of
/// `levels` is the level of code k.
DS4_DEVICE i32 fp2_dot(u32 sixteen, u32 levels, const u32 *x, i32 c) {
  // Nibble n has the code 2n, 2n + 1.
  const u32 even = sixteen & 0x33333333u, odd = sixteen >> 2 & 0x33333333u;
  DS4_REGISTERS
  for (u32 half = 0; half < 2; ++half) {
    const u32 a = pick_bytes(levels, 0, even >> (16 * half) & 0xffffu);
    const u32 b = pick_bytes(levels, 0, odd >> (16 * half) & 0xffffu);
    c = dot4(pick_bytes(a, b, 0x5140u), x[2 * half], c);
    c = dot4(pick_bytes(a, b, 0x7362u), x[2 * half + 1], c);
  }
  return c;
}

/// c + the 8 elements of 3-bit codes in `eight` times x[0], x[1]. Byte k of
/// high:low is the level of code k.
DS4_DEVICE i32 fp3_dot(u32 eight, u32 low, u32 high, const u32 *x, i32 c) {
  DS4_REGISTERS
  for (u32 half = 0; half < 2; ++half) {
    const u32 four = eight >> (12 * half);
    const u32 s = (four & 7u) | (four & 0x38u) << 1 | (four & 0x1c0u) << 2 |
                  (four & 0xe00u) << 3;
    c = dot4(pick_bytes(low, high, s), x[half], c);
  }
  return c;
}

/// c + the 8 elements of 4-bit codes in `eight` times x and y: byte k has
/// element k of x in its low nibble, of y in its high one.
DS4_DEVICE i32 fp4_dot(u32 eight, u32 x, u32 y, i32 c) {
  // Magnitudes, without regard to signs: bytes are of x, y, x, y.
  const u32 a = pick_bytes(0x03020100u, 0x0a080604u, eight & 0x7777u);
  const u32 b = pick_bytes(0x03020100u, 0x0a080604u, eight >> 16 & 0x7777u);
  // -m is ~m + 1: 1s where the sign is set, and bytes of 1s.
  const u32 low = eight >> 3 & 0x01010101u, high = eight >> 7 & 0x01010101u;
  c = dot4(pick_bytes(a, b, 0x6420u) ^ low * 255u, x, c);
  c = dot4(pick_bytes(a, b, 0x7531u) ^ high * 255u, y, c);
  return dot4(high, y, dot4(low, x, c));
}

#endif // DS4_OPS_WEIGHTS_CODES_H
