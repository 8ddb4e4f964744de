// rotate_ref.cpp - oracle of ds4.rotate.
#include "ops/Reference.h"

#include <algorithm>
#include <cassert>

namespace ds4::ref {

void rotate(uint64_t width, Floats x, Ints experts, Ints rotations,
            std::span<float> result) {
  assert(width % 32 == 0 && x.size() == experts.size() * width &&
         result.size() == x.size());
  for (uint64_t v = 0; v < experts.size(); ++v) {
    const Floats vector = x.subspan(v * width, width);
    const std::span<float> out = result.subspan(v * width, width);
    if (rotations[static_cast<uint64_t>(experts[v])] != 0)
      hadamard(32, vector, out);
    else
      std::ranges::copy(vector, out.begin());
  }
}

} // namespace ds4::ref
