// argmax_ref.cpp - oracle of ds4.argmax.
#include "ops/Reference.h"

#include <cassert>
#include <cmath>

namespace ds4::ref {

NanRow argmax(uint64_t vocab, Floats logits, std::span<int32_t> result) {
  assert(logits.size() == result.size() * vocab);
  for (uint64_t row = 0; row < result.size(); ++row) {
    uint64_t best = 0;
    for (uint64_t v = 0; v < vocab; ++v) {
      if (std::isnan(logits[row * vocab + v]))
        return row;
      if (logits[row * vocab + v] > logits[row * vocab + best])
        best = v;
    }
    result[row] = static_cast<int32_t>(best);
  }
  return std::nullopt;
}

} // namespace ds4::ref
