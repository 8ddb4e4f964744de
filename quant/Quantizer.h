// Quantizer.h - from one GGUF file to another with the formats of a recipe, a
// piece of a tensor at a time: memory is bounded by one tensor.
#ifndef DS4_QUANT_QUANTIZER_H
#define DS4_QUANT_QUANTIZER_H

#include "quant/Imatrix.h"
#include "quant/Recipe.h"

#include <filesystem>
#include <functional>
#include <optional>

namespace ds4::quant {

/// What became of a tensor.
struct TensorReport {
  std::string name;
  WeightFormat from, to;
  uint64_t elements = 0, bytes = 0; ///< bytes: as written
  /// Sum of importance times squared error, and of importance times squared
  /// value; the importance is 1 without a matrix.
  double error = 0, power = 0;
  /// Where a search had moments: the same of outputs, sums over rows of
  /// (w - q)^T M (w - q) and w^T M w; else 0.
  double outputError = 0, outputPower = 0;

  double bitsPerWeight() const {
    return 8.0 * static_cast<double>(bytes) / static_cast<double>(elements);
  }
  double relativeError() const { return power > 0 ? error / power : 0; }
  double relativeOutputError() const {
    return outputPower > 0 ? outputError / outputPower : 0;
  }
};

struct QuantizeOptions {
  Recipe recipe;
  const Imatrix *imatrix = nullptr; ///< importance of columns; null: equal
  /// Look for codes with less error of outputs than the reference's, where the
  /// matrix has moments; elsewhere the reference's are taken.
  bool search = false;
  /// Most bytes of the file: other formats are given to tensors than the
  /// recipe says where that lowers the errors of outputs.
  std::optional<uint64_t> budget;
  unsigned threads = 1;
  bool measure = false; ///< fill errors and powers of the reports
  /// Called after each piece with the elements done; may be empty.
  std::function<void(uint64_t done, const std::string &tensor)> progress;
};

/// Writes `out`. Metadata are those of `in`; general.file_type becomes the
/// recipe's, or goes if it has none, and general.quantization_version is 2.
/// Codebooks of learned-level formats are fitted first, one pair an expert, and
/// written as decode tables. With a budget, a tensor that the recipe quantises
/// may get its format, or one of ROCmFPX with 2.5, 3.5 or 4.25 bits a weight,
/// as chooseTypes says; an error is that of outputs (of weights, where there
/// are no moments), in units of their power, over some rows of the tensor.
/// Errors: a value that is not finite, a row length that a format does not
/// allow, a tensor that comes with learned codebooks or should get them and is
/// no expert tensor; statistics that do not fit; a budget that is too small, or
/// with a recipe of learned levels.
Result<std::vector<TensorReport>> quantizeFile(const Gguf &in,
                                               const std::filesystem::path &out,
                                               const QuantizeOptions &options);

} // namespace ds4::quant

#endif // DS4_QUANT_QUANTIZER_H
