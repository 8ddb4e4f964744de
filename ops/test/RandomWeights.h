// RandomWeights.h - bytes of random weights in any format, for tests: finite,
// of moderate size, with valid scale bytes.
#ifndef DS4_OPS_TEST_RANDOMWEIGHTS_H
#define DS4_OPS_TEST_RANDOMWEIGHTS_H

#include "ops/test/RandomFloats.h"
#include "runtime/DecodeTables.h"
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
    // Scales of super-blocks are multiplied by others.
    const uint8_t f16Exponent = info.blockElements > 32 ? 0x14 : 0x20;
    for (uint32_t i = 0; i < info.scaleCount; ++i) {
      uint8_t &byte = block[info.scaleOffset + i];
      if (info.scaleKind == ScaleKind::f16)
        exponent(info.scaleOffset + 2 * i + 1, f16Exponent);
      else if (info.scaleKind == ScaleKind::ue4m3)
        byte %= 0x7f;
      else if (info.scaleKind == ScaleKind::e8m0)
        byte = 0x78 + byte % 8;       // 2^-7 to 1
      else if ((byte & 0x7f) == 0x7f) // bit 7 is a book or a sign
        byte ^= 1;
    }
    if (format == WeightFormat::f32)
      exponent(3, 0x3e);
    else if (format == WeightFormat::bf16)
      exponent(1, 0x3e);
    else if (format == WeightFormat::f16)
      exponent(1, 0x30);
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

/// The int8 form of such books; no bytes without levels.
inline std::vector<uint8_t> int8Books(WeightFormat format,
                                      const std::vector<float> &books) {
  if (books.empty())
    return {};
  const uint64_t experts =
      books.size() / (2 * weightFormatInfo(format).bookLevels);
  return DecodeTable{
      format, experts, books, std::vector<uint8_t>(experts, 1), {}}
      .int8Books();
}

} // namespace ds4::test

#endif // DS4_OPS_TEST_RANDOMWEIGHTS_H
