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
    return float_of(load_word(row + 4 * i));
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

/// Values first, first + 1, ... of a row, first a multiple of n. Fp8 rows begin
/// at multiples of 16 bytes, fp4 rows of 4.
template <u32 n>
DS4_DEVICE void state_values(u32 storage, u32 width, const u8 *row, u32 first,
                             float (&values)[n]) {
  const u32 codes = width - kFp8Tail;
  if (storage == kFp4 && n % 16 == 0 && kFp4Block % n == 0) {
    u8 bytes[n / 2];
    DS4_REGISTERS
    for (u32 i = 0; i < n / 2; i += 4)
      load_aligned<4>(bytes + i, row + first / 2 + i);
    const float scale = block_scale(row[width / 2 + first / kFp4Block]);
    DS4_REGISTERS
    for (u32 i = 0; i < n; ++i)
      values[i] = f32_from_e2m1(bytes[i / 2] >> (i % 2 * 4) & 15u) * scale;
    return;
  }
  if (storage != kFp8 || n % 16 != 0 || kFp8Block % n != 0) {
    for (u32 i = 0; i < n; ++i)
      values[i] = state_value(storage, width, row, first + i);
    return;
  }
  u8 bytes[2 * n];
  if (first >= codes) {
    const u8 *tail = row + codes + 2 * (first - codes);
    DS4_REGISTERS
    for (u32 i = 0; i < 2 * n; i += 16)
      load_aligned<16>(bytes + i, tail + i);
    DS4_REGISTERS
    for (u32 i = 0; i < n; ++i)
      values[i] = f32_from_bf16(bytes[2 * i] | u32{bytes[2 * i + 1]} << 8);
    return;
  }
  DS4_REGISTERS
  for (u32 i = 0; i < n; i += 16)
    load_aligned<16>(bytes + i, row + first + i);
  const float scale =
      block_scale(row[codes + 2 * kFp8Tail + first / kFp8Block]);
  DS4_REGISTERS
  for (u32 i = 0; i < n; i += 4) {
    float four[4];
    e4m3_values(load_u32(bytes + i), four); // append writes no NaN
    for (u32 j = 0; j < 4; ++j)
      values[i + j] = four[j] * scale;
  }
}

/// The same values by fours, as store(i, values first + i, ...): what is
/// decoded need not be in registers at once. Codes are loaded before the first
/// of them is used.
template <u32 n, typename Store>
DS4_DEVICE void state_fours(u32 storage, u32 width, const u8 *row, u32 first,
                            Store store) {
  static_assert(n % 4 == 0);
  const u32 codes = width - kFp8Tail;
  float four[4];
  if (storage != kFp8 || n % 16 != 0 || kFp8Block % n != 0) {
    DS4_REGISTERS
    for (u32 i = 0; i < n; i += 4) {
      state_values(storage, width, row, first + i, four);
      store(i, four);
    }
  } else if (first >= codes) {
    float values[16];
    DS4_REGISTERS
    for (u32 i = 0; i < n; i += 16) {
      state_values(storage, width, row, first + i, values);
      DS4_REGISTERS
      for (u32 j = 0; j < 16; j += 4) {
        for (u32 k = 0; k < 4; ++k)
          four[k] = values[j + k];
        store(i + j, four);
      }
    }
  } else {
    u8 bytes[n];
    DS4_REGISTERS
    for (u32 i = 0; i < n; i += 16)
      load_aligned<16>(bytes + i, row + first + i);
    const float scale =
        block_scale(row[codes + 2 * kFp8Tail + first / kFp8Block]);
    DS4_REGISTERS
    for (u32 i = 0; i < n; i += 4) {
      e4m3_values(load_u32(bytes + i), four); // append writes no NaN
      for (u32 k = 0; k < 4; ++k)
        four[k] *= scale;
      store(i, four);
    }
  }
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
  DS4_REGISTERS
  for (u32 mask = 1; mask < 8; mask *= 2)
    m = max_abs(m, shfl_xor(m, mask));
  keep_here(m);
  return m;
}

#endif // DS4_OPS_STATE_ROWS_H
