// Synthesizer.h - model files of random weights: the size and the formats of a
// published model, for tests of loading where the model is not.
#ifndef DS4_QUANT_SYNTHESIZER_H
#define DS4_QUANT_SYNTHESIZER_H

#include "runtime/GgufWriter.h"

#include <cstdint>
#include <filesystem>
#include <functional>

namespace ds4::quant {

struct SynthesizeOptions {
  uint64_t seed = 0;
  unsigned threads = 0; ///< 0: one a core
  bool sparse = false;  ///< the header alone; data are a hole of zeros
  std::function<void(uint64_t done, uint64_t total)> progress; ///< bytes
  std::function<bool()> cancelled; ///< asked often, from any thread
};

/// Writes a file with the tensors and metadata of `shape`, which has declared
/// them, with random rows (runtime/RandomRows.h) and books of adaptive weights.
/// The bytes depend on shape and seed alone. Errors: no deepseek4 metadata, an
/// adaptive tensor that no decode table has a place for, no room, cancelled.
Status synthesizeFile(GgufWriter shape, const std::filesystem::path &path,
                      const SynthesizeOptions &options);

} // namespace ds4::quant

#endif // DS4_QUANT_SYNTHESIZER_H
