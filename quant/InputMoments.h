// InputMoments.h - second moments of the inputs of a matrix in the form that a
// search for codes needs: of full rank, with what error feedback derives from
// them. Knows no format.
#ifndef DS4_QUANT_INPUTMOMENTS_H
#define DS4_QUANT_INPUTMOMENTS_H

#include <cstdint>
#include <span>
#include <vector>

namespace ds4::quant {

/// Means of x_i x_j over inputs x, within blocks of columns. Made once a
/// matrix, read by all rows.
class InputMoments {
public:
  /// `sums` [columns, block] over `inputs` inputs of this matrix. `layer`,
  /// empty or the means of all matrices of the tensor, stands in for what few
  /// inputs do not tell: it weighs 4 block / (4 block + inputs). Then 0.01 +
  /// 0.5 block / (inputs + 4 block) of the mean diagonal is added to the
  /// diagonal; without `layer` 0.01 + 0.5 block / inputs.
  InputMoments(uint64_t columns, uint64_t block, std::span<const float> sums,
               double inputs, std::span<const float> layer = {});

  uint64_t columns() const { return count; }
  uint64_t block() const { return blockColumns; }
  /// Row i of the moments: products with the columns of i's block.
  const float *row(uint64_t i) const { return &moments[i * blockColumns]; }
  /// Row i of U, upper triangular with U^T U = M^-1 in each block: an error e
  /// in column i is best made up for by adding -e U_ij / U_ii to the columns j
  /// after it, and then costs (e / U_ii)^2.
  const float *feedback(uint64_t i) const { return &factor[i * blockColumns]; }

  /// x^T M x.
  double quadraticForm(std::span<const float> x) const;

private:
  void factorBlock(uint64_t first, uint64_t size);

  uint64_t count, blockColumns;
  std::vector<float> moments, factor;
};

} // namespace ds4::quant

#endif // DS4_QUANT_INPUTMOMENTS_H
