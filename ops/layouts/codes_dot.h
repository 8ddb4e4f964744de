// codes_dot.h - block_dot of a decoder (ops/weights/), or block_dot4 where the
// target multiplies four codes at once: the same integers. Constant that
// codegen prints: kIn (columns), from which follows how codes are aligned.

/// Whether the decoder has block_dot4, for blocks of 32.
template <typename... Books>
constexpr bool kHasBlockDot4 =
    kBlockElements == 32 &&
    requires(const u8 *block, const u32 (&x)[8], Books... books) {
      block_dot4(block, x, 0.0f, 0.0f, books...);
    };

/// acc + block b of `row` times the 32 codes.
template <typename Code, typename... Books>
DS4_DEVICE float codes_dot(const u8 *row, u32 b, const Code *codes, float d,
                           float acc, Books... books) {
  if constexpr (kHasDot4 && kHasBlockDot4<Books...>) {
    constexpr u32 kLoad = kIn % 128 == 0 ? 16 : 4;
    u32 x[8];
#pragma unroll
    for (u32 i = 0; i < 32; i += kLoad)
      load_aligned<kLoad>(reinterpret_cast<u8 *>(x) + i,
                          reinterpret_cast<const u8 *>(codes) + i);
    return block_dot4(row + b * kBlockBytes, x, d, acc, books...);
  } else {
    return block_dot(row, b, codes, d, acc, books...);
  }
}

/// A product from the sum of its terms: int8 books have a scale for all.
template <typename... Books>
DS4_DEVICE float whole_product(float sum, Books... books) {
  if constexpr (sizeof...(Books) != 0)
    sum *= float_of(load_word((books, ...) + kBookLevels));
  return sum;
}

/// Puts 32 codes into the order in which block_dots wants them.
template <typename Words, typename... Books>
DS4_DEVICE void order_words(Words &x, Books...) {
  if constexpr (kHasDot4 && kHasBlockDot4<Books...>)
    order_codes(x);
}
