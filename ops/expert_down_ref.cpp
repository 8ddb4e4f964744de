// expert_down_ref.cpp - oracle of ds4.expert_down.
#include "ops/Reference.h"

#include <cassert>

namespace ds4::ref {

void expertDown(const Act &h, Ints experts, const Weight &weight,
                std::span<float> result) {
  assert(h.vectors() == experts.size());
  expertLinear(h, 1, experts, weight, result);
}

} // namespace ds4::ref
