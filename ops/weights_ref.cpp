// weights_ref.cpp - what the bytes of a weight mean (docs/formats.md). Codes
// and levels follow the records of ir/QuantFormats.td; the scales of each
// format are written here. Independent of the device decoders in ops/weights/.
#include "ops/Reference.h"
#include "ops/prelude.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

namespace ds4::ref {

using enum WeightFormat;

namespace {

/// Some bits of every code (Plane in ir/QuantFormats.td).
struct Plane {
  uint32_t offset, bits, period;
};

/// What the codes of a format are.
enum class Codes { integers, table, books, grid };

/// The part of a format's record that the oracle reads.
struct Layout {
  WeightFormat format;
  std::array<Plane, 2> planes;
  Codes codes;
  int zero;                   ///< of integers: level = code - zero
  std::array<int, 16> levels; ///< of a table
  unsigned scales;            ///< that 32 elements have
  bool minimums;
};

constexpr Layout kLayouts[] = {
#include "ops/WeightLayouts.inc"
};

const Layout &layoutOf(WeightFormat format) {
  const auto *it = std::ranges::find(kLayouts, format, &Layout::format);
  assert(it != std::end(kLayouts) && "not a quantised format");
  return *it;
}

uint32_t u16At(const uint8_t *p) { return p[0] | p[1] << 8; }

/// The codes of elements first, ..., first + 31 of a block.
std::array<uint32_t, 32> codesAt(const Layout &layout, const uint8_t *block,
                                 uint32_t first) {
  std::array<uint32_t, 32> codes{};
  uint32_t done = 0;
  for (const Plane &plane : layout.planes) {
    if (plane.bits == 0)
      break;
    const uint32_t mask = (1u << plane.bits) - 1;
    const uint8_t *bytes = block + plane.offset;
    // Of a period; a power of two.
    const uint32_t bytesOf = plane.period * plane.bits / 8;
    if (plane.period > 1)
      bytes += first / plane.period * bytesOf;
    for (uint32_t i = 0; i < 32; ++i) {
      uint32_t code;
      if (plane.period == 0) {
        const uint32_t bit = (first + i) * plane.bits, shift = bit % 8;
        code = bytes[bit / 8] >> shift;
        if (shift + plane.bits > 8)
          code |= static_cast<uint32_t>(bytes[bit / 8 + 1]) << (8 - shift);
      } else if (plane.period == 1) {
        code = bytes[first + i];
      } else {
        const uint32_t at = first % plane.period + i;
        code = bytes[at % bytesOf] >> (plane.bits * (at / bytesOf));
      }
      codes[i] |= (code & mask) << done;
    }
    done += plane.bits;
  }
  return codes;
}

/// Levels of the codes; formats without books.
void readLevels(const Layout &layout, const uint8_t *block, uint32_t first,
                WeightBlock &result) {
  const std::array<uint32_t, 32> codes = codesAt(layout, block, first);
  const bool bytes = layout.planes[0].bits == 8;
  for (unsigned i = 0; i < 32; ++i)
    if (layout.codes == Codes::table)
      result.level[i] = layout.levels[codes[i]];
    else if (bytes)
      result.level[i] = static_cast<int8_t>(codes[i]);
    else
      result.level[i] = static_cast<int>(codes[i]) - layout.zero;
}

/// Scales and minimums of 32-element group `group` of a block.
void readScales(WeightFormat format, const uint8_t *p, uint32_t group,
                WeightBlock &result) {
  const uint8_t *first = p + weightFormatInfo(format).scaleOffset;
  const auto set = [&result](float scale0, float scale1) {
    result.scale = {scale0, scale1};
  };
  switch (format) {
  case q8_0:
    return set(f32_from_f16(u16At(first)), 0);
  case q6_K: {
    const auto *scales = reinterpret_cast<const int8_t *>(p + 192) + 2 * group;
    const float d = f32_from_f16(u16At(first));
    return set(d * static_cast<float>(scales[0]),
               d * static_cast<float>(scales[1]));
  }
  case q4_0_rocmfp4_fast:
    return set(f32_from_ue4m3(first[0]), 0);
  case q3_0_rocmfpx:
  case q2_0_rocmfp2:
    return set(f32_from_ue4m3(first[0]), f32_from_ue4m3(first[1]));
  default:
    assert(false && "a quantised format without its scales here");
  }
}

/// Element i of an adaptive block: the trailing byte of its half has the book
/// in bit 7 and the scale below.
float adaptiveAt(const Layout &layout, const uint8_t *block, uint64_t i,
                 const float *books) {
  const WeightFormatInfo &info = weightFormatInfo(layout.format);
  const uint8_t meta = block[info.scaleOffset + i / 16];
  const uint32_t code = codesAt(layout, block, 0)[i];
  return f32_from_ue4m3(meta & 0x7f) *
         books[(meta >> 7) * info.bookLevels + code];
}

} // namespace

WeightBlock weightBlock(WeightFormat format, const uint8_t *row,
                        uint64_t index) {
  const WeightFormatInfo &info = weightFormatInfo(format);
  const Layout &layout = layoutOf(format);
  const uint32_t groups = info.blockElements / 32;
  const uint8_t *block = row + index / groups * info.blockBytes;
  const uint32_t group = index % groups;
  WeightBlock result{};
  result.scales = layout.scales;
  result.minimums = layout.minimums;
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
    const uint8_t *block = row + i / 32 * weightFormatInfo(format).blockBytes;
    return adaptiveAt(layoutOf(format), block, i % 32, books);
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
    books = weight.books.data() +
            index / weight.rowsPerExpert * 2 * info.bookLevels;
  std::vector<float> values(weight.columns);
  if (!info.quantised || info.bookLevels) {
    for (uint64_t i = 0; i < values.size(); ++i)
      values[i] = weightAt(weight.format, row, i, books);
    return values;
  }
  // The same as weightAt, a block at a time.
  for (uint64_t b = 0; b < values.size() / 32; ++b) {
    const WeightBlock block = weightBlock(weight.format, row, b);
    for (uint64_t i = 0; i < 32; ++i)
      values[32 * b + i] = block.value(i);
  }
  return values;
}

float blockDot(WeightFormat format, const uint8_t *row, uint64_t block,
               const int8_t *codes, float d, float acc) {
  const WeightBlock w = weightBlock(format, row, block);
  const unsigned width = 32 / w.scales;
  for (unsigned part = 0; part < w.scales; ++part) {
    int products = 0, sum = 0;
    for (unsigned i = width * part; i < width * (part + 1); ++i) {
      products += w.level[i] * codes[i];
      sum += codes[i];
    }
    acc = fma_f32(static_cast<float>(products), w.scale[part] * d, acc);
    if (w.minimums)
      acc = fma_f32(static_cast<float>(sum), w.minimum[part] * d, acc);
  }
  return acc;
}

} // namespace ds4::ref
