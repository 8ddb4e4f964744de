// ImportanceMatrix.h - how strongly each input of each linear is driven: sums
// of squared activations, of expert weights one row an expert. Written in the
// form that llama.cpp's tools and ds4quant read.
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
  };

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

  /// Writes a GGUF file: for each weight `NAME.in_sum2` f32 [experts, width]
  /// and `NAME.counts` f32 [experts, 1] (outermost first), and where the text
  /// came from in the metadata. Errors: nothing was collected, writing fails.
  Status write(const std::filesystem::path &path, const Origin &origin) const;

private:
  std::map<std::string, Entry> all;
};

} // namespace ds4

#endif // DS4_RUNTIME_IMPORTANCEMATRIX_H
