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

/// What the levels of one of an expert's int8 books, of kLevels each, are
/// multiplied with: 1, or the power of two that is stored behind the second
/// one. Behind the first one is what whole products are multiplied with
/// (whole_product).
template <u32 kLevels>
DS4_DEVICE float book_ratio(const u8 *books, bool second) {
  const u32 ratio = load_word(books + 2 * kLevels + 4);
  return float_of(second ? ratio : 0x3f800000u);
}

//===----------------------------------------------------------------------===//
// Four levels at a time, as int8 in a word, by bytes picked from a table. Codes
// become selectors by masks, in the order in which they lie, which is not that
// of the elements: order_fp2 and order_fp4 put what the levels are multiplied
// with, 32 int8, into the same order.
//===----------------------------------------------------------------------===//

/// Bits of x where `mask` has ones, otherwise those of y.
DS4_DEVICE u32 select_bits(u32 mask, u32 x, u32 y) {
  return (x & mask) | (y & ~mask);
}

/// Levels of the 16 elements of 2-bit codes in `sixteen`. Byte k of `table` is
/// the level of code k.
DS4_DEVICE void fp2_levels(u32 sixteen, u32 table, u32 *levels) {
  if constexpr (kSelectorBits == 4) {
    const u32 even = sixteen & 0x33333333u, odd = sixteen >> 2 & 0x33333333u;
    levels[0] = pick_bytes(table, table, even);
    levels[1] = pick_bytes(table, table, odd);
    levels[2] = pick_bytes(table, table, even >> 16);
    levels[3] = pick_bytes(table, table, odd >> 16);
  } else {
    DS4_REGISTERS
    for (u32 k = 0; k < 4; ++k)
      levels[k] = pick_bytes(table, table, sixteen >> (2 * k) & 0x03030303u);
  }
}

/// The even bytes of a and b become a, the odd ones b. Selectors of 4 bits.
DS4_DEVICE void part_bytes(u32 &a, u32 &b) {
  const u32 even = pick_bytes(a, b, 0x6420u);
  b = pick_bytes(a, b, 0x7531u);
  a = even;
}

/// Back from there: bytes of a and b in turn.
DS4_DEVICE void pair_bytes(u32 &a, u32 &b) {
  const u32 first = pick_bytes(a, b, 0x5140u);
  b = pick_bytes(a, b, 0x7362u);
  a = first;
}

/// Bytes as a square, a word a row: rows and columns change places. Selectors
/// of 8 bits.
DS4_DEVICE void transpose_bytes(u32 (&x)[8], u32 k) {
  const u32 a = pick_bytes(x[k], x[k + 1], 0x05010400u);
  const u32 b = pick_bytes(x[k], x[k + 1], 0x07030602u);
  const u32 c = pick_bytes(x[k + 2], x[k + 3], 0x05010400u);
  const u32 d = pick_bytes(x[k + 2], x[k + 3], 0x07030602u);
  x[k] = pick_bytes(a, c, 0x05040100u);
  x[k + 1] = pick_bytes(a, c, 0x07060302u);
  x[k + 2] = pick_bytes(b, d, 0x05040100u);
  x[k + 3] = pick_bytes(b, d, 0x07060302u);
}

/// Of each eight the even ones, then the odd ones; by bytes, of each sixteen
/// every fourth.
DS4_DEVICE void order_fp2(u32 (&x)[8]) {
  DS4_REGISTERS
  for (u32 k = 0; k < 8; k += kSelectorBits / 2) {
    if constexpr (kSelectorBits == 4)
      part_bytes(x[k], x[k + 1]);
    else
      transpose_bytes(x, k);
  }
}

/// Back from there.
DS4_DEVICE void restore_fp2(u32 (&x)[8]) {
  DS4_REGISTERS
  for (u32 k = 0; k < 8; k += kSelectorBits / 2) {
    if constexpr (kSelectorBits == 4)
      pair_bytes(x[k], x[k + 1]);
    else
      transpose_bytes(x, k);
  }
}

/// Levels of the 32 elements of the 3-bit stream at `block`, in their order.
/// `low` and `high`: byte k of high:low is the level of code k, in `low` and
/// `high` [0] of elements 0 to 15, [1] of the others.
DS4_DEVICE void fp3_levels(const u8 *block, const u32 (&low)[2],
                           const u32 (&high)[2], u32 (&levels)[8]) {
  const u32 a = load_u32(block), b = load_u32(block + 4);
  const u32 c = load_u32(block + 8);
  const u32 eights[4] = {a, a >> 24 | b << 8, b >> 16 | c << 16, c >> 8};
  DS4_REGISTERS
  for (u32 g = 0; g < 4; ++g) {
    // Eight codes are spread in halves: twelve bits, six, three.
    if constexpr (kSelectorBits == 4) {
      const u32 twelves = select_bits(0xfffu, eights[g], eights[g] << 4);
      const u32 sixes = select_bits(0x003f003fu, twelves, twelves << 2);
      const u32 s = select_bits(0x07070707u, sixes, sixes << 1) & 0x77777777u;
      levels[2 * g] = pick_bytes(low[g / 2], high[g / 2], s);
      levels[2 * g + 1] = pick_bytes(low[g / 2], high[g / 2], s >> 16);
    } else {
      DS4_REGISTERS
      for (u32 half = 0; half < 2; ++half) {
        const u32 four = eights[g] >> (12 * half);
        const u32 sixes = select_bits(0x3fu, four, four << 10);
        const u32 s = select_bits(0x00070007u, sixes, sixes << 5) & 0x07070707u;
        levels[2 * g + half] = pick_bytes(low[g / 2], high[g / 2], s);
      }
    }
  }
}

/// Levels of the four 4-bit codes of which `low` has bits 0 to 2 as selectors
/// and `sign` bit 3 as bit 2 of selectors that count 0 to 3.
DS4_DEVICE u32 fp4_four(u32 low, u32 sign) {
  return pick_bytes(pick_bytes(kept_constant(0x03020100u), 0x0a080604u, low),
                    pick_bytes(kept_constant(0xfdfeff00u), 0xf6f8fafcu, low),
                    sign);
}

/// Levels of the 32 elements of the 16 bytes of nibbles at `block`.
DS4_DEVICE void fp4_levels(const u8 *block, u32 (&levels)[8]) {
  DS4_REGISTERS
  for (u32 k = 0; k < 4; ++k) {
    const u32 eight = load_u32(block + 4 * k);
    if constexpr (kSelectorBits == 4) {
      const u32 low = eight & 0x77777777u;
      const u32 sign = (eight >> 1 & kept_constant(0x44444444u)) | 0x32103210u;
      levels[k] = fp4_four(low, sign);
      levels[4 + k] = fp4_four(low >> 16, sign >> 16);
    } else {
      DS4_REGISTERS
      for (u32 half = 0; half < 2; ++half)
        levels[4 * half + k] =
            fp4_four(eight >> (4 * half) & 0x07070707u,
                     (eight >> (4 * half + 1) & 0x04040404u) | 0x03020100u);
    }
  }
}

/// Those of the low and of the high nibbles in turn; by bytes, as they are.
DS4_DEVICE void order_fp4(u32 (&x)[8]) {
  if constexpr (kSelectorBits == 4) {
    DS4_REGISTERS
    for (u32 k = 0; k < 4; ++k)
      pair_bytes(x[k], x[4 + k]);
  }
}

/// Back from there.
DS4_DEVICE void restore_fp4(u32 (&x)[8]) {
  if constexpr (kSelectorBits == 4) {
    DS4_REGISTERS
    for (u32 k = 0; k < 4; ++k)
      part_bytes(x[k], x[4 + k]);
  }
}

#endif // DS4_OPS_WEIGHTS_CODES_H
