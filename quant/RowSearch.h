// RowSearch.h - better codes at the same bytes: a row's codes, scales and books
// are chosen together so that the error of its *outputs* is small, given the
// second moments of its inputs. For ROCmFPX with fixed and with learned levels.
#ifndef DS4_QUANT_ROWSEARCH_H
#define DS4_QUANT_ROWSEARCH_H

#include "quant/Encoders.h"
#include "quant/InputMoments.h"

#include <vector>

namespace ds4::quant {

/// Whether searchRow knows `format`.
bool canSearch(WeightFormat format);

/// Encodes a finite row so that (w - q)^T M (w - q) is small, M the moments:
/// first with error feedback from column to column, then by coordinate descent
/// over codes, scales and books, in which the error only falls. `books` as in
/// encodeMixRow, else empty.
void searchRow(WeightFormat format, Floats books, Floats row,
               const InputMoments &moments, uint8_t *out);

} // namespace ds4::quant

#endif // DS4_QUANT_ROWSEARCH_H
