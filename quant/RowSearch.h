// RowSearch.h - better codes at the same bytes: a row's codes, scales and books
// are chosen together so that the error of its *outputs* is small, given the
// second moments of its inputs. For ROCmFPX with fixed and with learned levels.
#ifndef DS4_QUANT_ROWSEARCH_H
#define DS4_QUANT_ROWSEARCH_H

#include "quant/Encoders.h"
#include "quant/Imatrix.h"

#include <vector>

namespace ds4::quant {

/// Second moments of the inputs of a matrix, blockwise, and what error feedback
/// derives from them. Made once a matrix, read by all rows.
class InputMoments {
public:
  /// From sums over inputs, shrunk towards their diagonal, since they come from
  /// few inputs. `stats` has moments and `matrix` met an input.
  InputMoments(const InputStatistics &stats, uint64_t matrix);

  uint64_t columns() const { return count; }
  uint64_t block() const { return blockColumns; }
  /// Row i of the moments: products with the columns of i's block.
  const float *row(uint64_t i) const { return &moments[i * blockColumns]; }
  /// Row i of the upper Cholesky factor of the inverse, likewise.
  const float *feedback(uint64_t i) const { return &factor[i * blockColumns]; }

private:
  uint64_t count, blockColumns;
  std::vector<float> moments, factor;
};

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
