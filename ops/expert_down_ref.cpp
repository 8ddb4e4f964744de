// expert_down_ref.cpp - oracle of ds4.expert_down.
#include "ops/Reference.h"

#include <cassert>

namespace ds4::ref {

void expertDown(const Act &h, Ints experts, const Weight &weight,
                std::span<float> result) {
  const uint64_t hidden = weight.rowsPerExpert;
  assert(h.vectors() == experts.size() &&
         result.size() == experts.size() * hidden);
  for (uint64_t c = 0; c < experts.size(); ++c)
    for (uint64_t d = 0; d < hidden; ++d)
      result[c * hidden + d] =
          rowDot(h, c, weight, static_cast<uint64_t>(experts[c]) * hidden + d);
}

} // namespace ds4::ref
