// ape_add_ref.cpp - oracle of ds4.ape_add.
#include "ops/Reference.h"

#include <cassert>

namespace ds4::ref {

void apeAdd(const Step &step, Floats gate, const Weight &ape,
            std::span<float> result) {
  const uint64_t channels = ape.columns;
  assert(gate.size() == result.size() &&
         gate.size() == static_cast<uint64_t>(step.count) * channels);
  for (uint64_t t = 0; t < static_cast<uint64_t>(step.count); ++t) {
    const std::vector<float> row =
        weightRow(ape, (step.start + t) % ape.rows());
    for (uint64_t c = 0; c < channels; ++c)
      result[t * channels + c] = gate[t * channels + c] + row[c];
  }
}

} // namespace ds4::ref
