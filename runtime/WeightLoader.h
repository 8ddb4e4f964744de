// WeightLoader.h - streams the tensors of a plan from a GGUF file into device
// memory, checks every scale and packs rows into their layout on the way.
// Allocates nothing on the device.
#ifndef DS4_RUNTIME_WEIGHTLOADER_H
#define DS4_RUNTIME_WEIGHTLOADER_H

#include "runtime/BundleFormat.h"
#include "runtime/Device.h"
#include "runtime/Gguf.h"
#include "runtime/Result.h"

#include <cstdint>
#include <functional>
#include <span>

namespace ds4 {

/// A tensor to load and where it goes.
struct WeightTarget {
  const WeightDesc *desc = nullptr;
  void *memory = nullptr; ///< device, deviceBytes(*desc) bytes
  /// Adaptive formats: mode of each expert (WeightCheck).
  std::span<const uint8_t> modes;
};

struct LoadOptions {
  uint64_t chunkBytes = uint64_t(8) << 20; ///< a read; a multiple of 4096
  uint32_t chunks = 4;                     ///< staging buffers, at least 2
  bool allowDirect = true;                 ///< bypass the page cache
  /// Called on the calling thread after each chunk: tensor bytes done, of all.
  std::function<void(uint64_t done, uint64_t total)> progress;
  /// Asked after each chunk: true ends the load with ErrorCode::cancelled.
  std::function<bool()> cancelled;

  /// The buffers, and one chunk of packed rows: padding adds less than an
  /// eighth (WeightLayout.h), and a row may have begun in the chunk before.
  uint64_t stagingBytes() const {
    return chunkBytes * (chunks + 1) + chunkBytes / 4;
  }
};

struct LoadStats {
  uint64_t bytes = 0; ///< of tensors
  double seconds = 0;
  bool direct = false; ///< the reads bypassed the page cache
};

/// Error: a weight is absent from `file` or has another format, shape or size
/// there than when the bundle was compiled.
Status matchWeights(const Gguf &file, std::span<const WeightDesc> weights);

/// Loads `targets`, which have passed matchWeights. A reader thread fills the
/// staging buffers in file order while this thread checks, packs the rows of
/// weights whose layout is not the file's, and copies. Errors:
/// reading fails, the file is shorter than its header says, WeightCheck
/// refuses, cancelled.
Result<LoadStats> loadWeights(const Gguf &file, Device &device,
                              std::span<const WeightTarget> targets,
                              const LoadOptions &options);

} // namespace ds4

#endif // DS4_RUNTIME_WEIGHTLOADER_H
