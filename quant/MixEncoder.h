// MixEncoder.h - ROCmFPX types 105 and 106: blocks whose halves choose one of
// two learned books, and the fit of such books. Books are [2, levels],
// ascending, exact in bf16. Where they are stored is not known here.
#ifndef DS4_QUANT_MIXENCODER_H
#define DS4_QUANT_MIXENCODER_H

#include "quant/Encoders.h"

#include <vector>

namespace ds4::quant {

/// Encodes a row as the published reference does: for each half the book and
/// scale byte of least squared error, weighted by `importance` as it is (empty
/// or a value a column). False, and nothing written, if a value or weight is
/// not finite, a weight is negative, or every scale's error overflows.
bool encodeMixRow(WeightFormat format, Floats books, Floats row,
                  Floats importance, uint8_t *out);

/// Books of least weighted squared error for a matrix of `columns` columns
/// (f32, row-major): choice of codes and scales alternates with least-squares
/// levels, from two starts: Lloyd's books of the halves' values in units of
/// their greatest, as the published converter has them, and a mirrored pair.
/// Deterministic.
std::vector<float> fitBooks(WeightFormat format, Floats matrix,
                            uint64_t columns, Floats importance);

} // namespace ds4::quant

#endif // DS4_QUANT_MIXENCODER_H
