// TypeBudget.h - which tensor of a file gets how many bits, given what each
// choice costs in bytes and in errors. Knows no file and no encoder.
#ifndef DS4_QUANT_TYPEBUDGET_H
#define DS4_QUANT_TYPEBUDGET_H

#include "runtime/Result.h"
#include "runtime/WeightFormats.h"

#include <cstdint>
#include <span>
#include <vector>

namespace ds4::quant {

/// A format that a tensor could have.
struct TypeChoice {
  WeightFormat format;
  uint64_t bytes;
  double error;
};

/// Picks a choice for each tensor, so that together they have at most `budget`
/// bytes and the sum of errors is small: from the fewest bytes of each, the
/// step that lowers errors most for its bytes comes first, as long as one fits.
/// Of equal steps the first tensor's comes first. No tensor is without choices.
/// Returns indices of choices. Errors: the fewest bytes are more than `budget`.
Result<std::vector<size_t>>
chooseTypes(std::span<const std::vector<TypeChoice>> tensors, uint64_t budget);

} // namespace ds4::quant

#endif // DS4_QUANT_TYPEBUDGET_H
