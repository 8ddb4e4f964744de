// ImportanceMatrix.h - how strongly each input of each linear is driven, and
// on request how inputs go together: sums of products of activations, of expert
// weights for each expert. Written in the form that llama.cpp's tools and
// ds4quant read; the reader is quant/Imatrix.h.
#ifndef DS4_RUNTIME_IMPORTANCEMATRIX_H
#define DS4_RUNTIME_IMPORTANCEMATRIX_H

#include "runtime/BundleFormat.h"
#include "runtime/Result.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace ds4 {

class ImportanceMatrix {
public:
  /// Sums of one weight.
  struct Entry {
    uint32_t width = 0, experts = 1;
    std::vector<double> squares;  ///< [experts, width]
    std::vector<uint64_t> counts; ///< [experts]: vectors that were summed
    /// Columns are cut into blocks of this many; 0: no moments.
    uint32_t block = 0;
    /// [experts, width, block]: x_i x_j for the columns j of i's block; 0 past
    /// the end of a cut block. Symmetric blocks: tiles below the diagonal are
    /// not filled.
    std::vector<double> moments;
  };

  /// Moments within blocks of at most `block` columns; 0: none. They take
  /// 8 * experts * width * block bytes a weight.
  explicit ImportanceMatrix(uint32_t block = 0) : block(block) {}

  /// Adds rows as SessionHooks::observe gives them. Sums are in double and in
  /// the order of the calls, so that they do not depend on the cut into steps.
  void add(const Observation &observation, std::span<const float> rows,
           std::span<const int32_t> chosen);

  /// By the name of the weight; only weights that were read at all.
  const std::map<std::string, Entry> &entries() const { return all; }

  /// What a file says about where it comes from.
  struct Origin {
    std::string dataset; ///< name of the text
    uint32_t chunks = 0, chunkTokens = 0;
  };

  /// Writes a GGUF file: for each weight `NAME.in_sum2` f32 [experts, width],
  /// `NAME.counts` f32 [experts, 1] and with moments `NAME.in_moment` f32
  /// [experts, width, block] (outermost first), and where the text came from in
  /// the metadata. Errors: nothing was collected, writing
  /// fails.
  Status write(const std::filesystem::path &path, const Origin &origin) const;

private:
  Entry &entryOf(const Observation &observation);

  uint32_t block;
  std::map<std::string, Entry> all;
};

} // namespace ds4

#endif // DS4_RUNTIME_IMPORTANCEMATRIX_H
