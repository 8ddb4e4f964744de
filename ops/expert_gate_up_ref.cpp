// expert_gate_up_ref.cpp - oracle of ds4.expert_gate_up.
#include "ops/Reference.h"

#include <cassert>

namespace ds4::ref {

void expertGateUp(const Act &x, Ints experts, const Weight &gate,
                  const Weight &up, std::span<float> gateOut,
                  std::span<float> upOut) {
  const uint64_t inter = gate.rowsPerExpert, k = experts.size() / x.vectors();
  assert(gateOut.size() == experts.size() * inter &&
         upOut.size() == gateOut.size());
  for (uint64_t c = 0; c < experts.size(); ++c)
    for (uint64_t f = 0; f < inter; ++f) {
      const uint64_t row = static_cast<uint64_t>(experts[c]) * inter + f;
      gateOut[c * inter + f] = rowDot(x, c / k, gate, row);
      upOut[c * inter + f] = rowDot(x, c / k, up, row);
    }
}

} // namespace ds4::ref
