// levels_dot.h - block_dot4 for a decoder of blocks of 32 that has declared
//
//   levels_of(block, levels, books...)  the 32 levels, four int8 a word
//   float scale_of(block, part, books...)
//
// and kScales, the scales of a block. `books`: the int8 books of a format that
// has them, otherwise nothing. The last line of a decoder.

/// acc + a block times the 32 codes x, an fma a scale: the bits of block_dot.
template <typename... Books>
DS4_DEVICE float block_dot4(const u8 *block, const u32 (&x)[8], float d,
                            float acc, Books... books) {
  u32 levels[8];
  levels_of(block, levels, books...);
  DS4_REGISTERS
  for (u32 part = 0; part < kScales; ++part) {
    constexpr u32 kWords = 8 / kScales;
    i32 sum = 0;
    DS4_REGISTERS
    for (u32 k = kWords * part; k < kWords * (part + 1); ++k)
      sum = dot4(levels[k], x[k], sum);
    acc = fma_f32(static_cast<float>(sum), scale_of(block, part, books...) * d,
                  acc);
  }
  return acc;
}
