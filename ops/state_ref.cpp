// state_ref.cpp - cached rows byte for byte (ir/Ds4Types.td, Ds4_StateType).
#include "ops/Reference.h"
#include "ops/prelude.h"

#include <cassert>
#include <cstring>

namespace ds4::ref {

namespace {

constexpr uint64_t kTail = 64;     ///< bfloat16 values of an fp8 row
constexpr uint64_t kFp8Block = 64; ///< codes that share an exponent
constexpr uint64_t kFp4Block = 32;

void putU16(uint8_t *p, uint32_t value) {
  p[0] = static_cast<uint8_t>(value);
  p[1] = static_cast<uint8_t>(value >> 8);
}
uint32_t u16At(const uint8_t *p) { return p[0] | p[1] << 8; }

float blockMax(Floats block) {
  float amax = 0;
  for (float x : block)
    amax = max_abs(amax, x);
  return amax;
}

} // namespace

uint64_t stateRowBytes(RowStorage storage, uint64_t width) {
  switch (storage) {
  case RowStorage::f32:
    return 4 * width;
  case RowStorage::f16:
    return 2 * width;
  case RowStorage::fp8:
    return (width - kTail + 2 * kTail + (width - kTail) / kFp8Block + 15) / 16 *
           16;
  case RowStorage::fp4:
    return (width / 2 + width / kFp4Block + 3) / 4 * 4;
  }
  return 0;
}

State::State(uint64_t rows, uint64_t width, RowStorage storage)
    : rows(rows), width(width), storage(storage),
      bytes(rows * stateRowBytes(storage, width)) {}

void State::write(uint64_t number, Floats row) {
  assert(row.size() == width);
  const uint64_t rowBytes = stateRowBytes(storage, width);
  uint8_t *p = bytes.data() + number % rows * rowBytes;
  std::memset(p, 0, rowBytes);
  switch (storage) {
  case RowStorage::f32:
    std::memcpy(p, row.data(), 4 * width);
    return;
  case RowStorage::f16:
    for (uint64_t i = 0; i < width; ++i)
      putU16(p + 2 * i, f16_from_f32(row[i]));
    return;
  case RowStorage::fp8: {
    const uint64_t plain = width - kTail;
    uint8_t *tail = p + plain, *exponents = tail + 2 * kTail;
    for (uint64_t b = 0; b < plain / kFp8Block; ++b) {
      const Floats block = row.subspan(b * kFp8Block, kFp8Block);
      const uint32_t e = fp8_exponent(blockMax(block));
      exponents[b] = static_cast<uint8_t>(e);
      for (uint64_t i = 0; i < kFp8Block; ++i)
        p[b * kFp8Block + i] = static_cast<uint8_t>(fp8_code(block[i], e));
    }
    for (uint64_t i = 0; i < kTail; ++i)
      putU16(tail + 2 * i, bf16_from_f32(row[plain + i]));
    return;
  }
  case RowStorage::fp4: {
    uint8_t *exponents = p + width / 2;
    for (uint64_t b = 0; b < width / kFp4Block; ++b) {
      const Floats block = row.subspan(b * kFp4Block, kFp4Block);
      const uint32_t e = fp4_exponent(blockMax(block));
      exponents[b] = static_cast<uint8_t>(e);
      for (uint64_t i = 0; i < kFp4Block; ++i) {
        const uint64_t at = b * kFp4Block + i;
        p[at / 2] |= static_cast<uint8_t>(fp4_code(block[i], e) << at % 2 * 4);
      }
    }
    return;
  }
  }
}

std::vector<float> State::read(uint64_t number) const {
  const uint8_t *p =
      bytes.data() + number % rows * stateRowBytes(storage, width);
  std::vector<float> row(width);
  switch (storage) {
  case RowStorage::f32:
    std::memcpy(row.data(), p, 4 * width);
    break;
  case RowStorage::f16:
    for (uint64_t i = 0; i < width; ++i)
      row[i] = f32_from_f16(u16At(p + 2 * i));
    break;
  case RowStorage::fp8: {
    const uint64_t plain = width - kTail;
    const uint8_t *tail = p + plain, *exponents = tail + 2 * kTail;
    for (uint64_t i = 0; i < plain; ++i)
      row[i] = fp8_value(p[i], exponents[i / kFp8Block]);
    for (uint64_t i = 0; i < kTail; ++i)
      row[plain + i] = f32_from_bf16(u16At(tail + 2 * i));
    break;
  }
  case RowStorage::fp4:
    for (uint64_t i = 0; i < width; ++i)
      row[i] =
          fp4_value(p[i / 2] >> i % 2 * 4 & 15, p[width / 2 + i / kFp4Block]);
    break;
  }
  return row;
}

} // namespace ds4::ref
