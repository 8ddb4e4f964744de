// state_rows.h - rows of a cache in the four storages of Ds4_StateType: how a
// value reads back, and how a group of 8 lanes shares a block that has one
// scale. Storage and width are constants at every call.
#ifndef DS4_OPS_STATE_ROWS_H
#define DS4_OPS_STATE_ROWS_H

// Values of the enum RowStorage.
constexpr u32 kF32 = 0, kF16 = 1, kFp8 = 2, kFp4 = 3;

/// Values with one scale.
constexpr u32 kFp8Block = 64, kFp4Block = 32;
/// The last values of an fp8 row are bfloat16.
constexpr u32 kFp8Tail = 64;

/// Value i of a row; exact.
DS4_DEVICE float state_value(u32 storage, u32 width, const u8 *row, u32 i) {
  if (storage == kF32)
    return float_of(load_u32(row + 4 * i));
  if (storage == kF16)
    return f32_from_f16(load_u16(row + 2 * i));
  if (storage == kFp8) {
    const u32 codes = width - kFp8Tail;
    if (i >= codes)
      return f32_from_bf16(load_u16(row + codes + 2 * (i - codes)));
    return fp8_value(row[i], row[codes + 2 * kFp8Tail + i / kFp8Block]);
  }
  const u32 code = row[i / 2] >> (i % 2 * 4) & 15u;
  return fp4_value(code, row[width / 2 + i / kFp4Block]);
}

/// Two bytes, little endian, at an even offset of a row.
DS4_DEVICE void store_u16(u8 *p, u32 bits) {
  p[0] = static_cast<u8>(bits);
  p[1] = static_cast<u8>(bits >> 8);
}

/// Greatest magnitude of the n values of each lane of a group of 8 lanes. The
/// whole wave must call it.
DS4_DEVICE float group_max_abs(const float *values, u32 n) {
  float m = 0.0f;
  for (u32 i = 0; i < n; ++i)
    m = max_abs(m, values[i]);
  for (u32 mask = 1; mask < 8; mask *= 2)
    m = max_abs(m, shfl_xor(m, mask));
  return m;
}

#endif // DS4_OPS_STATE_ROWS_H
