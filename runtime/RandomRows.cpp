// RandomRows.cpp - random codes with scales that give a row a norm of about 1.
#include "runtime/RandomRows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace ds4 {

/// Sets the scales of a block whose other bytes are random.
static void setScales(const WeightFormatInfo &info, uint8_t *block) {
  uint8_t *scale = block + info.scaleOffset;
  for (uint32_t i = 0; i < info.scaleCount; ++i) {
    switch (info.scaleKind) {
    case ScaleKind::f16: // 2^-12 to 2^-11
      scale[2 * i + 1] = static_cast<uint8_t>(0x0c | (scale[2 * i + 1] & 3));
      break;
    case ScaleKind::ue4m3: // 2^-6 to 2^-5
      scale[i] = static_cast<uint8_t>(0x10 | (scale[i] & 7));
      break;
    case ScaleKind::ue4m3Book:
    case ScaleKind::ue4m3Sign:
      scale[i] = static_cast<uint8_t>(0x10 | (scale[i] & 0x87));
      break;
    case ScaleKind::e8m0: // 2^-8
      scale[i] = 119;
      break;
    case ScaleKind::none:
      break;
    }
  }
}

static uint16_t f16Bits(float x) { // |x| below 2, rounded towards zero
  const auto bits = std::bit_cast<uint32_t>(x);
  const auto exponent = static_cast<int32_t>(bits >> 23 & 0xff) - 112;
  const uint32_t sign = bits >> 16 & 0x8000;
  if (exponent <= 0)
    return static_cast<uint16_t>(sign);
  return static_cast<uint16_t>(sign | static_cast<uint32_t>(exponent) << 10 |
                               (bits >> 13 & 0x3ff));
}

static void fillTable(SplitMix &random, const RandomRow &row, uint64_t rows,
                      std::byte *to) {
  const uint32_t limit = std::max(row.valueLimit, 1u);
  const uint64_t stride = limit / std::max<uint64_t>(row.elements, 1);
  for (uint64_t i = 0; i < rows; ++i) {
    const uint64_t first = random.next() % limit;
    for (uint64_t j = 0; j < row.elements; ++j) {
      const auto value = static_cast<int32_t>((first + j * stride) % limit);
      std::memcpy(to, &value, sizeof value);
      to += sizeof value;
    }
  }
}

static void fillFloats(SplitMix &random, const RandomRow &row, uint64_t rows,
                       std::byte *to) {
  const float scale = std::sqrt(3.0f / static_cast<float>(row.elements));
  for (uint64_t i = 0; i < rows * row.elements; ++i) {
    const float unit = random.signedUnit();
    const float value = row.isVector ? 1.0f + 0.125f * unit : unit * scale;
    const auto bits = std::bit_cast<uint32_t>(value);
    const auto half = row.format == WeightFormat::bf16
                          ? static_cast<uint16_t>(bits >> 16)
                          : f16Bits(value);
    const uint64_t bytes = row.format == WeightFormat::f32 ? 4 : 2;
    std::memcpy(to, bytes == 4 ? static_cast<const void *>(&bits) : &half,
                bytes);
    to += bytes;
  }
}

void fillRandomRows(SplitMix &random, const RandomRow &row, uint64_t rows,
                    std::byte *to) {
  const WeightFormatInfo &info = weightFormatInfo(row.format);
  if (row.format == WeightFormat::i32)
    return fillTable(random, row, rows, to);
  if (info.scaleKind == ScaleKind::none)
    return fillFloats(random, row, rows, to);
  const uint64_t bytes = rows * row.bytes();
  uint64_t at = 0;
  for (; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
    const uint64_t word = random.next();
    std::memcpy(to + at, &word, sizeof word);
  }
  const uint64_t word = random.next();
  std::memcpy(to + at, &word, bytes - at);
  for (at = 0; at < bytes; at += info.blockBytes)
    setScales(info, reinterpret_cast<uint8_t *>(to + at));
}

std::vector<float> randomBooks(SplitMix &random, WeightFormat format,
                               uint64_t experts) {
  const uint32_t levels = weightFormatInfo(format).bookLevels;
  std::vector<float> books(experts * 2 * levels);
  for (size_t i = 0; i < books.size(); ++i) {
    // Each in a range of its own, so that no two are equal.
    const auto place = static_cast<float>(2 * (i % levels) + 1);
    const float level =
        (place + 0.5f * random.signedUnit()) / static_cast<float>(levels) -
        1.0f;
    books[i] =
        std::bit_cast<float>(std::bit_cast<uint32_t>(level) & 0xffff0000);
  }
  return books;
}

} // namespace ds4
