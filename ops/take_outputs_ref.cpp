// take_outputs_ref.cpp - oracle of ds4.take_outputs.
#include "ops/Reference.h"

#include <algorithm>
#include <cassert>

namespace ds4::ref {

void takeOutputs(const Step &step, uint64_t rowElements, Floats x,
                 std::span<float> result) {
  const uint64_t first = step.count - step.outputs;
  assert(result.size() == static_cast<uint64_t>(step.outputs) * rowElements);
  std::ranges::copy(x.subspan(first * rowElements, result.size()),
                    result.begin());
}

} // namespace ds4::ref
