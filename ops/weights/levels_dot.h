// levels_dot.h - block_dot4 for a decoder of blocks of 32 that has declared
//
//   levels_of(block, levels, books...)  the 32 levels, four int8 a word, in the
//                                       order that is easiest to decode to
//   order_codes(x)                      puts 32 codes into the same order
//   restore_levels(levels)              puts levels into that of the elements
//   float scale_of(block, part, books...)
//
// and kScales, the scales of a block; where there are two, each half of the
// levels has one in any order. `books`: the int8 books of a format that has
// them, otherwise nothing. The last line of a decoder.

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

/// What a block times 32 codes of scale d adds: d terms[part] each.
struct BlockDots {
  float terms[kScales], d;
};

/// A block times the 32 codes x of scale d, which order_codes has put in order.
DS4_DEVICE BlockDots block_dots(const BlockLevels &block, const u32 (&x)[8],
                                float d) {
  BlockDots dots;
  DS4_REGISTERS
  for (u32 part = 0; part < kScales; ++part) {
    constexpr u32 kWords = 8 / kScales;
    i32 sum = kSumZero;
    DS4_REGISTERS
    for (u32 k = kWords * part; k < kWords * (part + 1); ++k)
      sum = dot4(block.levels[k], x[k], sum);
    dots.terms[part] = sum_value(sum) * block.scales[part];
  }
  dots.d = d;
  return dots;
}

/// acc + dots, an fma a scale: the bits of block_dot.
DS4_DEVICE float add_dots(const BlockDots &dots, float acc) {
  DS4_REGISTERS
  for (u32 part = 0; part < kScales; ++part)
    acc = fma_f32(dots.terms[part], dots.d, acc);
  return acc;
}

/// block_dot by dot4. Codes are in the order of the elements.
template <typename... Books>
DS4_DEVICE float block_dot4(const u8 *block, const u32 (&x)[8], float d,
                            float acc, Books... books) {
  u32 ordered[8];
  __builtin_memcpy(ordered, x, sizeof ordered);
  order_codes(ordered);
  return add_dots(block_dots(block_levels(block, books...), ordered, d), acc);
}
