// weights_ref.cpp - what the bytes of a weight mean (docs/formats.md). Codes
// and levels follow the records of ir/QuantFormats.td; the scales of each
// format are written here. Independent of the device decoders in ops/weights/.
#include "ops/CodeLayout.h"
#include "ops/Reference.h"
#include "ops/prelude.h"
#include "ops/weights/grids.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

namespace ds4::ref {

using enum WeightFormat;

namespace {

uint32_t u16At(const uint8_t *p) { return p[0] | p[1] << 8; }

/// Levels of the codes; formats without books and grids.
void readLevels(const CodeLayout &layout, const uint8_t *block, uint32_t first,
                WeightBlock &result) {
  const std::array<uint32_t, 32> codes = layout.read(block, first);
  for (unsigned i = 0; i < 32; ++i)
    result.level[i] = layout.level(codes[i]);
}

/// Element i of 32: the entry's byte `magnitude` with bit i % 8 of `signs`.
int signedLevel(uint64_t magnitude, uint32_t signs, unsigned i) {
  const int level = static_cast<int>(magnitude & 255);
  return signs >> (i % 8) & 1 ? -level : level;
}

/// Seven bits of signs; the eighth makes the number of ones even.
uint32_t evenSigns(uint32_t seven) {
  return seven | (std::popcount(seven) & 1u) << 7;
}

/// Where 32-element group `group` of iq2_xxs and iq3_xxs has four times seven
/// bits of signs and four bits of scale.
uint32_t signWord(WeightFormat format, const uint8_t *p, uint32_t group) {
  const uint8_t *at = format == iq2_xxs ? p + 2 + 8 * group + 4 // behind codes
                                        : p + 66 + 4 * group;
  return u16At(at) | u16At(at + 2) << 16;
}

/// Levels of the formats whose codes are entries of a grid.
void readGrid(WeightFormat format, const uint8_t *p, uint32_t group,
              WeightBlock &result) {
  for (unsigned i = 0; i < 32; ++i) {
    if (format == iq3_s) {
      const unsigned k = 8 * group + i / 4; // number of the index
      const uint32_t entry = p[2 + k] | (p[66 + k / 8] >> (k % 8) & 1) << 8;
      result.level[i] = signedLevel(iq3s_grid[entry] >> (8 * (i % 4)),
                                    p[74 + 4 * group + i / 8], i);
      continue;
    }
    const uint32_t word = signWord(format, p, group);
    const uint32_t signs = evenSigns(word >> (7 * (i / 8)) & 127);
    if (format == iq2_xxs)
      result.level[i] = signedLevel(
          iq2xxs_grid[p[2 + 8 * group + i / 8]] >> (8 * (i % 8)), signs, i);
    else
      result.level[i] = signedLevel(
          iq3xxs_grid[p[2 + 8 * group + i / 4]] >> (8 * (i % 4)), signs, i);
  }
}

/// Six-bit scale `index` of 16 in 12 bytes of q3_K: low nibbles of the first
/// eight in the low halves of 8 bytes, of the others in the high halves; the
/// high pairs at bit 2 (index / 4) of byte 8 + index % 4.
int q3KScale(const uint8_t *bytes, uint32_t index) {
  const int low = bytes[index % 8] >> (index / 8 * 4) & 15;
  const int high = bytes[8 + index % 4] >> (index / 4 * 2) & 3;
  return (low | high << 4) - 32;
}

/// Scale and minimum `index` of 8 in the 12 bytes of q4_K and q5_K. The first
/// four are six bits of bytes 0-3 and 4-7; the others have their low nibbles
/// in bytes 8-11 and their high pairs above those six bits.
std::array<int, 2> kPair(const uint8_t *bytes, uint32_t index) {
  if (index < 4)
    return {bytes[index] & 63, bytes[index + 4] & 63};
  const uint8_t low = bytes[index + 4];
  return {(low & 15) | bytes[index - 4] >> 6 << 4,
          low >> 4 | bytes[index] >> 6 << 4};
}

/// Scales and minimums of 32-element group `group` of a block.
void readScales(WeightFormat format, const uint8_t *p, uint32_t group,
                WeightBlock &result) {
  const uint8_t *first = p + weightFormatInfo(format).scaleOffset;
  const auto set = [&result](float scale0, float scale1) {
    result.scale = {scale0, scale1};
  };
  // A scale byte may be the last byte of the row.
  const bool isF16 = weightFormatInfo(format).scaleKind == ScaleKind::f16;
  const float d = isF16 ? f32_from_f16(u16At(first)) : 0;
  const auto scaled = [d](int factor) {
    return d * static_cast<float>(factor);
  };
  const auto setMinimums = [&](int minimum0, int minimum1) {
    const float dmin = f32_from_f16(u16At(first + 2));
    result.minimum = {-(dmin * static_cast<float>(minimum0)),
                      -(dmin * static_cast<float>(minimum1))};
  };
  switch (format) {
  case q4_1:
  case q5_1:
    result.minimum[0] = f32_from_f16(u16At(first + 2));
    [[fallthrough]];
  case q4_0:
  case q5_0:
  case q8_0:
  case iq4_nl:
    return set(d, 0);
  case q2_K: {
    const uint8_t *pairs = p + 2 * group; // scale, minimum << 4
    setMinimums(pairs[0] >> 4, pairs[1] >> 4);
    return set(scaled(pairs[0] & 15), scaled(pairs[1] & 15));
  }
  case q3_K:
    return set(scaled(q3KScale(p + 96, 2 * group)),
               scaled(q3KScale(p + 96, 2 * group + 1)));
  case q4_K:
  case q5_K: {
    const auto [scale, minimum] = kPair(p + 4, group);
    setMinimums(minimum, 0);
    return set(scaled(scale), 0);
  }
  case iq2_xxs:
    return set(scaled(2 * (signWord(format, p, group) >> 28) + 1) * 0.125f, 0);
  case iq3_xxs:
    return set(scaled(2 * (signWord(format, p, group) >> 28) + 1) * 0.25f, 0);
  case iq3_s:
    return set(scaled(2 * (p[106 + group / 2] >> (group % 2 * 4) & 15) + 1), 0);
  case iq4_xs: {
    const int low = p[4 + group / 2] >> (group % 2 * 4) & 15;
    const int high = u16At(p + 2) >> (2 * group) & 3;
    return set(scaled((low | high << 4) - 32), 0);
  }
  case mxfp4: // 2^(e - 128), a subnormal for e < 2
    return set(std::ldexp(1.0f, first[0] - 128), 0);
  case q6_K: {
    const auto *scales = reinterpret_cast<const int8_t *>(p + 192) + 2 * group;
    return set(scaled(scales[0]), scaled(scales[1]));
  }
  case q4_0_rocmfp4_fast:
  case q8_0_rocmfpx:
    return set(f32_from_ue4m3(first[0]), 0);
  case q2_0_rocmfp2_affine:
    result.minimum[0] = -f32_from_ue4m3(first[1]);
    return set(f32_from_ue4m3(first[0]), 0);
  case q2_0_rocmfp2_fp2s:
    for (unsigned i = 0; i < 32; ++i)
      if (first[i / 16] & 0x80)
        result.level[i] = -result.level[i];
    return set(f32_from_ue4m3(first[0] & 0x7f),
               f32_from_ue4m3(first[1] & 0x7f));
  case q4_0_rocmfp4:
  case q6_0_rocmfpx:
  case q3_0_rocmfpx:
  case q2_0_rocmfp2:
  case q2_0_rocmfp2_s40:
    return set(f32_from_ue4m3(first[0]), f32_from_ue4m3(first[1]));
  default:
    assert(false && "a quantised format without its scales here");
  }
}

/// The elements of an adaptive block: the trailing byte of a half has its book
/// in bit 7 and its scale below.
std::array<float, 32> adaptiveBlock(const WeightFormatInfo &info,
                                    const uint8_t *block, const float *books) {
  const std::array<uint32_t, 32> codes = codeLayout(info.format).read(block, 0);
  std::array<float, 32> values;
  for (unsigned i = 0; i < 32; ++i) {
    const uint8_t meta = block[info.scaleOffset + i / 16];
    values[i] = f32_from_ue4m3(meta & 0x7f) *
                books[(meta >> 7) * info.bookLevels + codes[i]];
  }
  return values;
}

/// The same as levels of int8 books and scales, without the scale of the whole
/// product.
void readAdaptive(const WeightFormatInfo &info, const uint8_t *block,
                  const uint8_t *int8Books, WeightBlock &result) {
  const std::array<uint32_t, 32> codes = codeLayout(info.format).read(block, 0);
  for (unsigned half = 0; half < 2; ++half) {
    const uint8_t meta = block[info.scaleOffset + half];
    const uint8_t *book = int8Books + (meta >> 7) * (info.bookLevels + 4);
    for (unsigned i = 16 * half; i < 16 * half + 16; ++i)
      result.level[i] = static_cast<int8_t>(book[codes[i]]);
    float ratio = 1.0f;
    if (meta >> 7)
      std::memcpy(&ratio, book + info.bookLevels, 4);
    result.scale[half] = f32_from_ue4m3(meta & 0x7f) * ratio;
  }
}

} // namespace

WeightBlock weightBlock(WeightFormat format, const uint8_t *row, uint64_t index,
                        const uint8_t *int8Books) {
  const WeightFormatInfo &info = weightFormatInfo(format);
  const CodeLayout &layout = codeLayout(format);
  const uint32_t groups = info.blockElements / 32;
  const uint8_t *block = row + index / groups * info.blockBytes;
  const uint32_t group = index % groups;
  WeightBlock result{};
  result.scales = layout.scales;
  result.minimums = layout.minimums;
  if (layout.codes == Codes::books) {
    assert(int8Books && "a format with books, without them");
    readAdaptive(info, block, int8Books, result);
    return result;
  }
  if (layout.codes == Codes::grid)
    readGrid(format, block, group, result);
  else
    readLevels(layout, block, 32 * group, result);
  readScales(format, block, group, result);
  return result;
}

float WeightBlock::value(unsigned i) const {
  const unsigned part = scales == 2 ? i / 16 : 0;
  const float product = static_cast<float>(level[i]) * scale[part];
  return minimums ? product + minimum[part] : product;
}

float weightAt(WeightFormat format, const uint8_t *row, uint64_t i,
               const float *books) {
  switch (format) {
  case f32: {
    float value;
    std::memcpy(&value, row + 4 * i, 4);
    return value;
  }
  case f16:
    return f32_from_f16(u16At(row + 2 * i));
  case bf16:
    return f32_from_bf16(u16At(row + 2 * i));
  case q3_1_rocmfp3_mix:
  case q2_1_rocmfp2_mix: {
    const WeightFormatInfo &info = weightFormatInfo(format);
    return adaptiveBlock(info, row + i / 32 * info.blockBytes, books)[i % 32];
  }
  default:
    return weightBlock(format, row, i / 32).value(i % 32);
  }
}

std::vector<float> weightRow(const Weight &weight, uint64_t index) {
  const WeightFormatInfo &info = weightFormatInfo(weight.format);
  const uint8_t *row = weight.row(index);
  const float *books = nullptr;
  if (info.bookLevels)
    books = weight.books.data() + weight.expertOf(index) * 2 * info.bookLevels;
  std::vector<float> values(weight.columns);
  if (!info.quantised) {
    for (uint64_t i = 0; i < values.size(); ++i)
      values[i] = weightAt(weight.format, row, i);
    return values;
  }
  // The same as weightAt, a block at a time.
  for (uint64_t b = 0; b < values.size() / 32; ++b) {
    float *into = values.data() + 32 * b;
    if (books) {
      std::ranges::copy(adaptiveBlock(info, row + b * info.blockBytes, books),
                        into);
      continue;
    }
    const WeightBlock block = weightBlock(weight.format, row, b);
    for (unsigned i = 0; i < 32; ++i)
      into[i] = block.value(i);
  }
  return values;
}

float blockDot(const WeightBlock &w, const int8_t *codes, float d, float acc) {
  const unsigned width = 32 / w.scales;
  for (unsigned part = 0; part < w.scales; ++part) {
    int products = 0, sum = 0;
    for (unsigned i = width * part; i < width * (part + 1); ++i) {
      products += w.level[i] * codes[i];
      sum += codes[i];
    }
    acc = fma_f32(static_cast<float>(products) * w.scale[part], d, acc);
    if (w.minimums)
      acc = fma_f32(static_cast<float>(sum) * w.minimum[part], d, acc);
  }
  return acc;
}

} // namespace ds4::ref
