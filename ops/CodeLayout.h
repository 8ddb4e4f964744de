// CodeLayout.h - where a quantised format keeps the codes of a block and what
// they stand for, from the records of ir/QuantFormats.td: what the oracle's
// decoder (weights_ref.cpp) and the encoders of quant/ have in common.
#ifndef DS4_OPS_CODELAYOUT_H
#define DS4_OPS_CODELAYOUT_H

#include "runtime/WeightFormats.h"

#include <array>
#include <cstdint>

namespace ds4::ref {

/// Some bits of every code (Plane in ir/QuantFormats.td).
struct CodePlane {
  uint32_t offset, bits, period;
};

/// What the codes of a format are.
enum class Codes { integers, signMagnitude, table, books, grid };

struct CodeLayout {
  WeightFormat format;
  std::array<CodePlane, 2> planes; ///< lowest bits first; no bits: unused
  Codes codes;
  int zero;                   ///< of integers: level = code - zero
  std::array<int, 16> levels; ///< of a table
  unsigned scales;            ///< that 32 elements have
  bool minimums;

  /// Of a code; 0 for grids.
  unsigned bits() const { return planes[0].bits + planes[1].bits; }
  /// The codes of elements first, ..., first + 31 of a block; `first` is a
  /// multiple of 32.
  std::array<uint32_t, 32> read(const uint8_t *block, uint32_t first) const;
  /// Puts the code of one element into a block whose bits for it are zero.
  void put(uint8_t *block, uint32_t element, uint32_t code) const;
  /// What a code stands for; not for books and grids.
  int level(uint32_t code) const;
};

/// `format` is quantised.
const CodeLayout &codeLayout(WeightFormat format);

} // namespace ds4::ref

#endif // DS4_OPS_CODELAYOUT_H
