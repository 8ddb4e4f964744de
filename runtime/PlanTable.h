// PlanTable.h - a plan as text for people: memory, and the launches of each
// phase with their bytes. Everything follows from manifest and plan.
#ifndef DS4_RUNTIME_PLANTABLE_H
#define DS4_RUNTIME_PLANTABLE_H

#include "runtime/BundleFormat.h"

#include <cstdint>
#include <string>

namespace ds4 {

/// Bytes that move in a full step. Cached rows that are read depend on the
/// position and are not counted.
struct StepBytes {
  uint64_t weights = 0; ///< read; no more than a weight has
  uint64_t read = 0;    ///< activations
  uint64_t written = 0; ///< activations and cached rows

  uint64_t total() const { return weights + read + written; }
};

/// Of a phase of `plan`.
StepBytes stepBytes(const Plan &plan, const Function &function);

/// Weight bytes that a token cannot do without: each weight once, experts and
/// table rows as far as it uses them.
uint64_t tokenWeightBytes(const Plan &plan);

/// The sizes that admission decides on, a line each, indented by two:
/// weights, states, rotary tables, activations of each phase, staging (left out
/// if it is 0).
std::string memoryTable(const Plan &plan, uint64_t stagingBytes);

/// The whole table, up to 100 columns: head, memory, and for each phase its
/// bytes, its layers by kind, and its launches. Of layers with equal launches
/// the first stands for all.
std::string planTable(const Manifest &manifest, const Plan &plan,
                      uint64_t stagingBytes);

} // namespace ds4

#endif // DS4_RUNTIME_PLANTABLE_H
