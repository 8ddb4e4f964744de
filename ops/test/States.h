// States.h - caches with random contents, as tests of kernels need them.
#ifndef DS4_OPS_TEST_STATES_H
#define DS4_OPS_TEST_STATES_H

#include "ops/Reference.h"
#include "ops/test/RandomFloats.h"

#include <algorithm>
#include <string_view>

namespace ds4::test {

inline std::string_view storageName(ref::RowStorage storage) {
  constexpr std::string_view names[] = {"f32", "f16", "fp8", "fp4"};
  return names[static_cast<int>(storage)];
}

/// Rows that a cache of this storage represents exactly.
inline std::vector<float> storedRows(Random &random, ref::RowStorage storage,
                                     uint64_t rows, uint64_t width) {
  const std::vector<float> values = random.floats(rows * width);
  std::vector<float> result(values.size());
  ref::roundRow(storage, width, values, result);
  return result;
}

/// A cache that holds rows first, ..., end - 1 and 0xff (NaN) elsewhere.
inline ref::State cacheOf(Random &random, uint64_t rows, uint64_t width,
                          ref::RowStorage storage, uint64_t first,
                          uint64_t end) {
  ref::State cache(rows, width, storage);
  std::fill(cache.bytes.begin(), cache.bytes.end(), 0xff);
  for (uint64_t row = first; row < end; ++row)
    cache.write(row, storedRows(random, storage, 1, width));
  return cache;
}

/// A ring with the tokens before a step.
inline ref::State ringBefore(Random &random, uint64_t rows, uint64_t width,
                             ref::RowStorage storage, const Step &step) {
  const uint64_t start = step.start;
  return cacheOf(random, rows, width, storage, start > rows ? start - rows : 0,
                 start);
}

} // namespace ds4::test

#endif // DS4_OPS_TEST_STATES_H
