// Admission.h - decides before the first allocation whether a bundle fits into
// memory, and says which one setting to change if it does not.
#ifndef DS4_RUNTIME_ADMISSION_H
#define DS4_RUNTIME_ADMISSION_H

#include "runtime/BundleFormat.h"
#include "runtime/Device.h"
#include "runtime/Result.h"

#include <cstdint>
#include <filesystem>
#include <string>

namespace ds4 {

/// Bytes that a session will allocate.
struct MemoryNeed {
  uint64_t weights = 0; ///< tensors and decode tables
  uint64_t context = 0; ///< states and rotary tables: grow with the context
  uint64_t arena = 0;   ///< activations of the largest phase
  uint64_t staging = 0; ///< while loading

  uint64_t total() const { return weights + context + arena + staging; }
};

MemoryNeed memoryNeed(const Plan &plan, uint64_t stagingBytes);

/// What the machine can give now: MemAvailable of /proc/meminfo, less where the
/// control group of this process has a limit. 0: unknown.
uint64_t availableMemory();

/// What a GPU that shares the host's memory can give: the least of what its
/// driver says (`driverBytes`; 0: unknown), what the kernel lets GPUs map (GTT,
/// in files below `sys`, "/sys") and `hostBytes`, less what the rest of the
/// system needs. Names ttm.pages_limit where that is the least.
MemoryLimit sharedMemoryLimit(uint64_t driverBytes, uint64_t hostBytes,
                              const std::filesystem::path &sys);

/// Most memory that this process has held at once so far, without what drivers
/// hold for it. 0: unknown.
uint64_t peakMemory();

/// Error (outOfMemory): `need` is more than the limit. `context` is the
/// bundle's, for the advice.
Status admit(const MemoryNeed &need, const MemoryLimit &limit,
             uint32_t context);

/// "weights 1.00 GB, states and tables 2.0 MB, activations 3.0 MB", and staging
/// if there is any.
std::string memoryText(const MemoryNeed &need);

/// "1.50 GB", "312 KB"; powers of 1000.
std::string formatBytes(uint64_t bytes);

} // namespace ds4

#endif // DS4_RUNTIME_ADMISSION_H
