// RandomWeights.h - bytes of random weights in any format, for tests: finite,
// of moderate size, with valid scale bytes.
#ifndef DS4_OPS_TEST_RANDOMWEIGHTS_H
#define DS4_OPS_TEST_RANDOMWEIGHTS_H

#include "ops/test/RandomFloats.h"
#include "runtime/WeightFormats.h"

#include <bit>
#include <cstring>

namespace ds4::test {

/// `rows` rows of `columns` elements.
inline std::vector<uint8_t> randomWeights(Random &random, WeightFormat format,
                                          uint64_t rows, uint64_t columns) {
  const WeightFormatInfo &info = weightFormatInfo(format);
  std::vector<uint8_t> bytes =
      random.bytes(rows * weightRowBytes(format, columns));
  for (size_t at = 0; at < bytes.size(); at += info.blockBytes) {
    uint8_t *block = bytes.data() + at;
    // Float formats: the exponent byte keeps its sign bit and gets one of two
    // exponents around 1/8.
    const auto exponent = [&](uint32_t byte, uint8_t value) {
      block[byte] = (block[byte] & 0x81) | value;
    };
    switch (format) {
    case WeightFormat::f32:
      exponent(3, 0x3e);
      break;
    case WeightFormat::bf16:
      exponent(1, 0x3e);
      break;
    case WeightFormat::f16:
      exponent(1, 0x30);
      break;
    case WeightFormat::q8_0:
      exponent(1, 0x20);
      break;
    case WeightFormat::q6_K:
      exponent(209, 0x14);
      break;
    case WeightFormat::i32:
      break;
    case WeightFormat::q3_1_rocmfp3_mix:
    case WeightFormat::q2_1_rocmfp2_mix:
      for (uint32_t i = 1; i <= 2; ++i) // bit 7 is the book
        if ((block[info.blockBytes - i] & 0x7f) == 0x7f)
          block[info.blockBytes - i] ^= 1;
      break;
    case WeightFormat::q4_0_rocmfp4_fast:
      block[16] %= 0x7f;
      break;
    case WeightFormat::q3_0_rocmfpx:
    case WeightFormat::q2_0_rocmfp2:
      block[info.blockBytes - 1] %= 0x7f;
      block[info.blockBytes - 2] %= 0x7f;
      break;
    }
  }
  return bytes;
}

/// f32 [experts, 2, levels] of bfloat16 values; empty without levels.
inline std::vector<float> randomBooks(Random &random, WeightFormat format,
                                      uint64_t experts) {
  std::vector<float> books(experts * 2 * weightFormatInfo(format).bookLevels);
  for (float &level : books) {
    const uint32_t bits = std::bit_cast<uint32_t>(random.uniform());
    level = std::bit_cast<float>(bits & 0xffff0000);
  }
  return books;
}

} // namespace ds4::test

#endif // DS4_OPS_TEST_RANDOMWEIGHTS_H
