// expert_gate_up_ref.cpp - oracle of ds4.expert_gate_up.
#include "ops/Reference.h"

namespace ds4::ref {

void expertGateUp(const Act &x, Ints experts, const Weight &gate,
                  const Weight &up, std::span<float> gateOut,
                  std::span<float> upOut) {
  const uint64_t used = experts.size() / x.vectors();
  expertLinear(x, used, experts, gate, gateOut);
  expertLinear(x, used, experts, up, upOut);
}

} // namespace ds4::ref
