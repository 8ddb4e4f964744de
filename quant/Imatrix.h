// Imatrix.h - statistics of what weights are multiplied by: read from
// llama.cpp's importance matrices in both their forms, collected and written
// in the newer one. Knows nothing of formats or encoders.
#ifndef DS4_QUANT_IMATRIX_H
#define DS4_QUANT_IMATRIX_H

#include "runtime/Gguf.h"

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ds4::quant {

/// Sums over the inputs x that a weight met, for each of its `matrices`
/// (experts; else 1).
struct InputStatistics {
  uint64_t columns = 0, matrices = 0;
  std::vector<float> counts; ///< [matrices]: inputs
  std::vector<float> sum2;   ///< [matrices, columns]: x_i^2
  /// Columns are cut into blocks of this many; 0: no moments.
  uint64_t block = 0;
  /// [matrices, columns, block]: x_i x_j for the columns j of i's block.
  std::vector<float> moments;

  /// Mean square of each column; empty if the matrix met no input.
  std::vector<float> importance(uint64_t matrix) const;
};

/// A file of statistics. The GGUF form holds tensors NAME.in_sum2 [columns,
/// matrices], NAME.counts [1, matrices] and, of ours, NAME.in_moment [block,
/// columns, matrices]; a tensor's numbers are read when they are asked for.
/// The legacy form (.imatrix, .dat) holds means of squares alone.
class Imatrix {
public:
  static Result<Imatrix> open(const std::filesystem::path &path);

  /// Statistics of weight `name`, whose shape must be that of the file; none
  /// if the file has none.
  Result<std::optional<InputStatistics>> statistics(const std::string &name,
                                                    uint64_t columns,
                                                    uint64_t matrices) const;

private:
  Status readLegacy(const std::filesystem::path &path);
  Result<std::vector<float>> floats(const GgufTensor &tensor) const;

  std::optional<Gguf> gguf;
  struct Entry {
    uint32_t calls;
    std::vector<float> values; ///< sums of mean squares over calls
  };
  std::map<std::string, Entry> legacy;
};

/// Collects statistics input by input.
class ImatrixCollector {
public:
  /// Moments within blocks of at most `block` columns; 0: none.
  explicit ImatrixCollector(uint64_t block) : block(block) {}

  /// Declares a weight. Inputs of others are ignored.
  void declare(const std::string &name, uint64_t columns, uint64_t matrices);
  /// Adds `inputs`, [vectors, columns], of matrix `matrix` of weight `name`.
  void add(const std::string &name, uint64_t matrix,
           std::span<const float> inputs);
  /// Writes the GGUF form.
  Status write(const std::filesystem::path &path) const;

private:
  uint64_t block;
  std::map<std::string, InputStatistics> statistics;
};

} // namespace ds4::quant

#endif // DS4_QUANT_IMATRIX_H
