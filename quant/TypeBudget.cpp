// TypeBudget.cpp - greedy, which is within one step of the best where errors
// fall ever slower with bytes, as those of formats do.
#include "quant/TypeBudget.h"

#include <algorithm>
#include <cassert>
#include <fmt/format.h>

namespace ds4::quant {

Result<std::vector<size_t>>
chooseTypes(std::span<const std::vector<TypeChoice>> tensors, uint64_t budget) {
  std::vector<size_t> chosen;
  uint64_t bytes = 0;
  for (const std::vector<TypeChoice> &choices : tensors) {
    assert(!choices.empty() && "a tensor without choices");
    const auto least =
        std::ranges::min_element(choices, {}, &TypeChoice::bytes);
    chosen.push_back(static_cast<size_t>(least - choices.begin()));
    bytes += least->bytes;
  }
  if (bytes > budget)
    return invalidInput(
        fmt::format("weights need {} bytes at least, of which {} are allowed",
                    bytes, budget));
  struct Step {
    size_t tensor, choice;
    uint64_t bytes;
    double gain = 0; ///< error less for a byte
  };
  while (true) {
    Step best;
    for (size_t t = 0; t < tensors.size(); ++t) {
      const TypeChoice &now = tensors[t][chosen[t]];
      for (size_t c = 0; c < tensors[t].size(); ++c) {
        const TypeChoice &next = tensors[t][c];
        if (next.bytes <= now.bytes || next.bytes - now.bytes > budget - bytes)
          continue;
        const uint64_t more = next.bytes - now.bytes;
        const double gain =
            (now.error - next.error) / static_cast<double>(more);
        if (gain > best.gain)
          best = {t, c, more, gain};
      }
    }
    if (!(best.gain > 0))
      return chosen;
    chosen[best.tensor] = best.choice;
    bytes += best.bytes;
  }
}

} // namespace ds4::quant
