// StepPlan.h - cuts a run of tokens into steps of the phases of a plan. The
// result for a token does not depend on the cut (docs/architecture.md,
// "Numerics"); only speed does.
#ifndef DS4_RUNTIME_STEPPLAN_H
#define DS4_RUNTIME_STEPPLAN_H

#include "runtime/BundleFormat.h"

#include <cstdint>
#include <span>
#include <vector>

namespace ds4 {

/// One step over tokens [first, first + count) of a run.
struct PlannedStep {
  uint32_t function; ///< index into Plan::functions
  uint32_t first;
  uint32_t count;
  uint32_t outputs; ///< logits of the last `outputs` tokens; may be 0

  bool operator==(const PlannedStep &other) const = default;
};

/// Steps for `tokens` tokens whose logits are wanted at `rows` (ascending, each
/// below `tokens`). `functions` are phases that compute the next tokens of a
/// sequence, at least one. A step has at most `mostTokens` tokens (0: as many
/// as the largest phase takes) and is cut shorter where a phase gives fewer
/// logits rows than are wanted.
std::vector<PlannedStep> planSteps(std::span<const Function> functions,
                                   uint32_t tokens,
                                   std::span<const uint32_t> rows,
                                   uint32_t mostTokens);

} // namespace ds4

#endif // DS4_RUNTIME_STEPPLAN_H
