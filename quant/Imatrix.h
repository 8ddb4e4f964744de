// Imatrix.h - statistics of what weights are multiplied by, read from
// llama.cpp's importance matrices in both their forms.
// runtime/ImportanceMatrix.h collects and writes them. Knows nothing of formats
// or encoders.
#ifndef DS4_QUANT_IMATRIX_H
#define DS4_QUANT_IMATRIX_H

#include "runtime/Gguf.h"

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ds4::quant {

/// Sums over the inputs x that a weight met, for each of its `matrices`
/// (experts; else 1).
struct InputStatistics {
  uint64_t columns = 0, matrices = 0;
  std::vector<float> counts; ///< [matrices]: inputs
  std::vector<float> sum2;   ///< [matrices, columns]: x_i^2
  /// The file has moments, within blocks of this many columns; 0: it has none.
  uint64_t block = 0;

  /// Mean square of each column; empty if the matrix met no input.
  std::vector<float> importance(uint64_t matrix) const;
};

/// A file of statistics. The GGUF form holds tensors NAME.in_sum2 [columns,
/// matrices], NAME.counts [1, matrices] and, of ours, NAME.in_moment [block,
/// columns, matrices]; a tensor's numbers are read when they are asked for. The
/// legacy form (.imatrix, .dat) holds means of squares alone.
class Imatrix {
public:
  static Result<Imatrix> open(const std::filesystem::path &path);

  /// Statistics of weight `name`, whose shape must be that of the file; none
  /// if the file has none.
  Result<std::optional<InputStatistics>> statistics(const std::string &name,
                                                    uint64_t columns,
                                                    uint64_t matrices) const;

  /// Sums of products of the inputs of one matrix of a weight whose
  /// `statistics` have a block: [columns, block], x_i x_j for the columns j of
  /// i's block.
  Result<std::vector<float>> moments(const std::string &name,
                                     const InputStatistics &statistics,
                                     uint64_t matrix) const;

private:
  Status readLegacy(const std::filesystem::path &path);
  /// Part of a tensor's numbers.
  Result<std::vector<float>> floats(const GgufTensor &tensor, uint64_t first,
                                    uint64_t count) const;

  std::optional<Gguf> gguf;
  struct Entry {
    uint32_t calls;
    std::vector<float> values; ///< sums of mean squares over calls
  };
  std::map<std::string, Entry> legacy;
};

} // namespace ds4::quant

#endif // DS4_QUANT_IMATRIX_H
