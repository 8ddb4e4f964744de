// levels_dot.h - block_dot4 for a decoder of blocks of 32 that has declared
//
//   levels_of(block, levels, books...)  the 32 levels, four int8 a word
//   float scale_of(block, part, books...)
//
// and kScales, the scales of a block. `books`: the int8 books of a format that
// has them, otherwise nothing. The last line of a decoder.

/// A block decoded: its levels, four int8 a word, and its scales.
struct BlockLevels {
  u32 levels[8];
  float scales[kScales];
};

template <typename... Books>
DS4_DEVICE BlockLevels block_levels(const u8 *block, Books... books) {
  BlockLevels it;
  levels_of(block, it.levels, books...);
  DS4_REGISTERS
  for (u32 part = 0; part < kScales; ++part)
    it.scales[part] = scale_of(block, part, books...);
  return it;
}

/// acc + a block times the 32 codes x, an fma a scale: the bits of block_dot.
DS4_DEVICE float levels_dot(const BlockLevels &block, const u32 (&x)[8],
                            float d, float acc) {
  DS4_REGISTERS
  for (u32 part = 0; part < kScales; ++part) {
    constexpr u32 kWords = 8 / kScales;
    i32 sum = 0;
    DS4_REGISTERS
    for (u32 k = kWords * part; k < kWords * (part + 1); ++k)
      sum = dot4(block.levels[k], x[k], sum);
    acc = fma_f32(static_cast<float>(sum), block.scales[part] * d, acc);
  }
  return acc;
}

template <typename... Books>
DS4_DEVICE float block_dot4(const u8 *block, const u32 (&x)[8], float d,
                            float acc, Books... books) {
  return levels_dot(block_levels(block, books...), x, d, acc);
}
