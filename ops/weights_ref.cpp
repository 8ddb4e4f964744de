// weights_ref.cpp - what the bytes of a weight mean, format by format
// (docs/formats.md). Independent of the device decoders in ops/weights/.
#include "ops/Reference.h"
#include "ops/prelude.h"

#include <array>
#include <cassert>
#include <cstring>

namespace ds4::ref {

using enum WeightFormat;

namespace {

/// 32 elements as integer levels, with a scale for each half of 16.
struct Block {
  std::array<int, 32> level;
  std::array<float, 2> scale;
  bool twoScales; ///< the format stores a scale a half
};

uint32_t u16At(const uint8_t *p) { return p[0] | p[1] << 8; }

/// Bit k of a little-endian bit stream is bit k & 7 of byte k >> 3.
uint32_t bitsAt(const uint8_t *stream, uint64_t first, unsigned count) {
  uint32_t value = 0;
  for (unsigned k = 0; k < count; ++k)
    value |= (stream[(first + k) >> 3] >> ((first + k) & 7) & 1u) << k;
  return value;
}

/// f16 d, then 32 int8.
Block readQ8_0(const uint8_t *p) {
  Block block;
  block.twoScales = false;
  block.scale.fill(f32_from_f16(u16At(p)));
  for (unsigned i = 0; i < 32; ++i)
    block.level[i] = static_cast<int8_t>(p[2 + i]);
  return block;
}

/// Elements 32 index ... of a 256-element super-block: 128 bytes ql, 64 bytes
/// qh, 16 int8 scales, f16 d. Each 128 elements use 64 bytes of ql, 32 of qh:
/// quarter c (32 elements) takes the low (c < 2) or high nibbles of ql's 32
/// bytes number c & 1 and bits 2c, 2c + 1 of qh. Level = code - 32.
Block readQ6K(const uint8_t *p, uint64_t index) {
  const uint64_t group = index / 4, quarter = index % 4;
  const uint8_t *low = p + 64 * group + 32 * (quarter & 1);
  const uint8_t *high = p + 128 + 32 * group;
  const float d = f32_from_f16(u16At(p + 208));
  Block block;
  block.twoScales = true;
  for (unsigned i = 0; i < 32; ++i) {
    const int nibble = quarter < 2 ? low[i] & 15 : low[i] >> 4;
    block.level[i] = (nibble | (high[i] >> (2 * quarter) & 3) << 4) - 32;
  }
  for (unsigned half = 0; half < 2; ++half)
    block.scale[half] =
        d * static_cast<float>(static_cast<int8_t>(p[192 + 2 * index + half]));
  return block;
}

/// 16 bytes of nibbles (low: element j, high: element 16 + j), one scale.
Block readFp4Fast(const uint8_t *p) {
  static constexpr int kMagnitude[8] = {0, 1, 2, 3, 4, 6, 8, 10};
  Block block;
  block.twoScales = false;
  block.scale.fill(f32_from_ue4m3(p[16]));
  for (unsigned i = 0; i < 32; ++i) {
    const int nibble = i < 16 ? p[i] & 15 : p[i - 16] >> 4;
    const int magnitude = kMagnitude[nibble & 7];
    block.level[i] = nibble & 8 ? -magnitude : magnitude;
  }
  return block;
}

/// 96-bit stream of 3-bit codes, a scale a half.
Block readFp3(const uint8_t *p) {
  static constexpr int kMagnitude[4] = {0, 1, 2, 4};
  Block block;
  block.twoScales = true;
  for (unsigned i = 0; i < 32; ++i) {
    const uint32_t code = bitsAt(p, 3 * i, 3);
    const int magnitude = kMagnitude[code & 3];
    block.level[i] = code & 4 ? -magnitude : magnitude;
  }
  block.scale = {f32_from_ue4m3(p[12]), f32_from_ue4m3(p[13])};
  return block;
}

/// 2-bit codes, level = code - 1, a scale a half (the dual reading).
Block readFp2(const uint8_t *p) {
  Block block;
  block.twoScales = true;
  for (unsigned i = 0; i < 32; ++i)
    block.level[i] = static_cast<int>(bitsAt(p, 2 * i, 2)) - 1;
  block.scale = {f32_from_ue4m3(p[8]), f32_from_ue4m3(p[9])};
  return block;
}

/// Block `index` of 32 elements of a row in a quantised format without books.
Block readBlock(WeightFormat format, const uint8_t *row, uint64_t index) {
  const uint8_t *p = row + index * weightFormatInfo(format).blockBytes;
  switch (format) {
  case q8_0:
    return readQ8_0(p);
  case q6_K:
    return readQ6K(row + index / 8 * 210, index % 8);
  case q4_0_rocmfp4_fast:
    return readFp4Fast(p);
  case q3_0_rocmfpx:
    return readFp3(p);
  case q2_0_rocmfp2:
    return readFp2(p);
  default:
    assert(false && "not a quantised format without books");
    return {};
  }
}

/// Element i of an adaptive block: the trailing byte of its half has the book
/// in bit 7 and the scale below.
float adaptiveAt(const uint8_t *p, uint64_t i, unsigned codeBits,
                 const float *books) {
  const uint64_t levels = 1u << codeBits;
  const uint8_t meta = p[4 * codeBits + i / 16];
  const uint32_t code = bitsAt(p, codeBits * i, codeBits);
  return f32_from_ue4m3(meta & 0x7f) * books[(meta >> 7) * levels + code];
}

} // namespace

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
    return adaptiveAt(row + i / 32 * 14, i % 32, 3, books);
  case q2_1_rocmfp2_mix:
    return adaptiveAt(row + i / 32 * 10, i % 32, 2, books);
  default: {
    const Block block = readBlock(format, row, i / 32);
    return static_cast<float>(block.level[i % 32]) * block.scale[i % 32 / 16];
  }
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
    const Block block = readBlock(weight.format, row, b);
    for (uint64_t i = 0; i < 32; ++i)
      values[32 * b + i] =
          static_cast<float>(block.level[i]) * block.scale[i / 16];
  }
  return values;
}

float blockDot(WeightFormat format, const uint8_t *row, uint64_t block,
               const int8_t *codes, float d, float acc) {
  const Block w = readBlock(format, row, block);
  int sum[2];
  for (unsigned half = 0; half < 2; ++half) {
    sum[half] = 0;
    for (unsigned i = 16 * half; i < 16 * half + 16; ++i)
      sum[half] += w.level[i] * codes[i];
  }
  if (!w.twoScales)
    return fma_f32(static_cast<float>(sum[0] + sum[1]), w.scale[0] * d, acc);
  for (unsigned half = 0; half < 2; ++half)
    acc = fma_f32(static_cast<float>(sum[half]), w.scale[half] * d, acc);
  return acc;
}

} // namespace ds4::ref
