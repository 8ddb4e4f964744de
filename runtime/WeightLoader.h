// WeightLoader.h - streams the tensors of a plan from a GGUF file into device
// memory, checks every scale and packs rows into their layout on the way.
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
  uint64_t chunkBytes = uint64_t(4) << 20; ///< a read; a multiple of 4096
  unsigned threads = 8;                    ///< that read and check
  bool allowDirect = true;                 ///< bypass the page cache
  /// Called on the calling thread after each chunk: tensor bytes done, of all.
  std::function<void(uint64_t done, uint64_t total)> progress;
  /// Asked after each chunk: true ends the load with ErrorCode::cancelled.
  std::function<bool()> cancelled;

  /// Most that a load takes besides the weights: a buffer more than threads,
  /// one of packed rows beside each, where padding adds less than an eighth
  /// (WeightLayout.h), and one of the device.
  uint64_t stagingBytes() const {
    return chunkBytes * (threads + 1) * 17 / 8 + chunkBytes;
  }
};

struct LoadStats {
  uint64_t bytes = 0; ///< of tensors
  double seconds = 0;
  bool direct = false;         ///< the reads bypassed the page cache
  bool packedByDevice = false; ///< rows were packed by a kernel
};

/// Error: a weight is absent from `file` or has another format, shape or size
/// there than when the bundle was compiled.
Status matchWeights(const Gguf &file, std::span<const WeightDesc> weights);

/// Loads `targets`, which have passed matchWeights. Threads read chunks of the
/// file into staging memory and check them while this thread hands those that
/// are done to the device, which packs the rows of weights whose layout is not
/// the file's; a device that compiles nothing gets them packed by the threads.
/// Weights are written once, and no second copy of them exists. Errors: reading
/// fails, the file is shorter than its header says, WeightCheck refuses (of
/// several, the first in the file), cancelled.
Result<LoadStats> loadWeights(const Gguf &file, Device &device,
                              std::span<const WeightTarget> targets,
                              const LoadOptions &options);

} // namespace ds4

#endif // DS4_RUNTIME_WEIGHTLOADER_H
