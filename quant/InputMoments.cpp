// InputMoments.cpp - the mix of a matrix's own moments with its layer's was
// chosen on held-out inputs of ds4-tiny (docs/quantisation.md).
#include "quant/InputMoments.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace ds4::quant {

/// Inputs, in columns of a block, that the layer's moments count as.
static constexpr double kLayerInputs = 4;
/// Added to the diagonal, in units of its mean: kDamping, and kNoise for each
/// column of a block an input. Moments of few inputs promise cancellations that
/// other inputs do not keep.
static constexpr double kDamping = 0.01, kNoise = 0.5;

InputMoments::InputMoments(uint64_t columns, uint64_t block,
                           std::span<const float> sums, double inputs,
                           std::span<const float> layer)
    : count(columns), blockColumns(block), moments(columns * block),
      factor(columns * block) {
  assert(block > 0 && sums.size() == moments.size());
  assert(inputs > 0 || !layer.empty());
  const double prior =
      layer.empty() ? 0 : kLayerInputs * static_cast<double>(block);
  for (uint64_t i = 0; i < moments.size(); ++i)
    moments[i] = static_cast<float>(
        (sums[i] + (prior > 0 ? prior * layer[i] : 0)) / (inputs + prior));
  double mean = 0;
  for (uint64_t i = 0; i < count; ++i)
    mean += moments[i * block + i % block];
  // A matrix that met zeros alone still needs a factor.
  const double share =
      kDamping + kNoise * static_cast<double>(block) / (inputs + prior);
  const auto damping = static_cast<float>(
      std::max(share * mean / static_cast<double>(count), 1e-12));
  for (uint64_t i = 0; i < count; ++i)
    moments[i * block + i % block] += damping;
  for (uint64_t first = 0; first < count; first += block)
    factorBlock(first, std::min(block, count - first));
}

/// With columns in reverse, M = L L^T gives M^-1 = U^T U, where U = L^-1 in
/// reverse.
void InputMoments::factorBlock(uint64_t first, uint64_t size) {
  const uint64_t n = size;
  std::vector<double> lower(n * n), inverse(n * n);
  const auto at = [&](uint64_t i, uint64_t j) -> double {
    return moments[(first + n - 1 - i) * blockColumns + n - 1 - j];
  };
  for (uint64_t i = 0; i < n; ++i)
    for (uint64_t j = 0; j <= i; ++j) {
      double sum = at(i, j);
      for (uint64_t k = 0; k < j; ++k)
        sum -= lower[i * n + k] * lower[j * n + k];
      // Rounding may take what damping gave.
      lower[i * n + j] = i == j ? std::sqrt(std::max(sum, 1e-6 * at(i, i)))
                                : sum / lower[j * n + j];
    }
  for (uint64_t i = 0; i < n; ++i) {
    // Row i of L^-1 from the rows before it.
    double *row = &inverse[i * n];
    for (uint64_t k = 0; k < i; ++k) {
      const double l = lower[i * n + k];
      for (uint64_t j = 0; j <= k; ++j)
        row[j] -= l * inverse[k * n + j];
    }
    row[i] = 1;
    for (uint64_t j = 0; j <= i; ++j)
      row[j] /= lower[i * n + i];
  }
  for (uint64_t i = 0; i < n; ++i)
    for (uint64_t j = i; j < n; ++j)
      factor[(first + i) * blockColumns + j] =
          static_cast<float>(inverse[(n - 1 - i) * n + (n - 1 - j)]);
}

double InputMoments::quadraticForm(std::span<const float> x) const {
  assert(x.size() == count);
  double sum = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t first = i / blockColumns * blockColumns;
    const uint64_t size = std::min(blockColumns, count - first);
    double product = 0;
    for (uint64_t j = 0; j < size; ++j)
      product += static_cast<double>(row(i)[j]) * x[first + j];
    sum += product * x[i];
  }
  return sum;
}

} // namespace ds4::quant
