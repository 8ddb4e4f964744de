// swiglu_ref.cpp - oracle of ds4.swiglu.
#include "ops/Reference.h"
#include "ops/prelude.h"

#include <cassert>

namespace ds4::ref {

void swiglu(Floats gate, Floats up, float limit, std::span<float> result) {
  assert(gate.size() == up.size() && gate.size() == result.size());
  for (uint64_t i = 0; i < gate.size(); ++i) {
    const float g = gate[i] > limit ? limit : gate[i];
    const float u = up[i] > limit ? limit : up[i] < -limit ? -limit : up[i];
    result[i] = g * sigmoid_f32(g) * u;
  }
}

} // namespace ds4::ref
