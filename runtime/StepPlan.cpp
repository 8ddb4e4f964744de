// StepPlan.cpp - greedy: the longest step that still gives all wanted rows.
#include "runtime/StepPlan.h"

#include <algorithm>
#include <cassert>

namespace ds4 {

/// The smallest phase that takes `count` tokens.
static uint32_t smallestFor(std::span<const Function> functions,
                            uint32_t count) {
  uint32_t best = static_cast<uint32_t>(functions.size());
  for (uint32_t i = 0; i < functions.size(); ++i)
    if (functions[i].capacity >= count &&
        (best == functions.size() ||
         functions[i].capacity < functions[best].capacity))
      best = i;
  assert(best < functions.size() && "no phase takes so many tokens");
  return best;
}

std::vector<PlannedStep> planSteps(std::span<const Function> functions,
                                   uint32_t tokens,
                                   std::span<const uint32_t> rows,
                                   uint32_t mostTokens) {
  uint32_t largest = 0;
  for (const Function &function : functions)
    largest = std::max(largest, function.capacity);
  if (mostTokens != 0)
    largest = std::min(largest, mostTokens);
  assert(largest > 0 || tokens == 0);

  std::vector<PlannedStep> steps;
  size_t wanted = 0; // first row that is not yet computed
  for (uint32_t first = 0; first < tokens;) {
    uint32_t count = std::min(largest, tokens - first);
    uint32_t function = smallestFor(functions, count);
    uint32_t outputs = 0;
    // A shorter step may belong to a phase with fewer outputs: repeat.
    while (wanted < rows.size() && rows[wanted] < first + count) {
      uint32_t longest = rows[wanted] - first +
                         std::max<uint32_t>(functions[function].outputs, 1);
      outputs = first + count - rows[wanted];
      if (count <= longest)
        break;
      count = longest;
      function = smallestFor(functions, count);
      outputs = 0;
    }
    steps.push_back({function, first, count, outputs});
    first += count;
    while (wanted < rows.size() && rows[wanted] < first)
      ++wanted;
  }
  return steps;
}

} // namespace ds4
