// RandomRows.h - rows of random weights in every storage format: valid blocks
// with sane scales, so that a model of them says nonsense, but finite nonsense
// that keeps its size from layer to layer. For measuring and testing where the
// model file is not. Same seed, same bytes on every machine.
#ifndef DS4_RUNTIME_RANDOMROWS_H
#define DS4_RUNTIME_RANDOMROWS_H

#include "runtime/WeightFormats.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ds4 {

/// splitmix64.
class SplitMix {
public:
  explicit SplitMix(uint64_t seed) : state(seed) {}
  uint64_t next() {
    uint64_t x = state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
  }
  /// In [-1, 1).
  float signedUnit() {
    return static_cast<float>(static_cast<int64_t>(next()) >> 40) * 0x1p-23f;
  }

private:
  uint64_t state;
};

/// What a row is.
struct RandomRow {
  WeightFormat format;
  uint64_t elements;
  /// A row of a matrix has a norm of about 1; values of a vector are about 1.
  bool isVector = false;
  /// Of i32 tables: values are below it, those of a row different.
  uint32_t valueLimit = 0;

  uint64_t bytes() const { return weightRowBytes(format, elements); }
};

/// `rows` rows as in a file: rows * row.bytes() bytes at `to`.
void fillRandomRows(SplitMix &random, const RandomRow &row, uint64_t rows,
                    std::byte *to);

/// Books of an adaptive weight, f32 [experts, 2, levels], each ascending, every
/// level a bfloat16.
std::vector<float> randomBooks(SplitMix &random, WeightFormat format,
                               uint64_t experts);

} // namespace ds4

#endif // DS4_RUNTIME_RANDOMROWS_H
