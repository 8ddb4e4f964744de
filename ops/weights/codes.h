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

#endif // DS4_OPS_WEIGHTS_CODES_H
