// KernelResources.h - what a compiled kernel takes of a chip, read from its
// code object: registers, memory of a block, and how many waves fit at once.
#ifndef DS4_RUNTIME_KERNELRESOURCES_H
#define DS4_RUNTIME_KERNELRESOURCES_H

#include "runtime/Result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ds4 {

struct KernelResources {
  uint32_t threads = 0; ///< most of a block
  uint32_t vectorRegisters = 0;
  uint32_t scalarRegisters = 0; ///< 0 where a chip has none of its own kind
  uint64_t sharedBytes = 0;     ///< of a block (LDS)
  uint64_t scratchBytes = 0;    ///< of a thread, in device memory
  /// Vector registers kept in scratch, and scalar ones in lanes of vector
  /// registers; NVIDIA's code does not say.
  std::optional<uint32_t> spills, scalarSpills;
};

/// Of the one kernel in `code`, an ELF file for an AMD or NVIDIA GPU (AMDGPU
/// metadata of code object 3 and later; .nv.info of a cubin). Errors: another
/// file, or one without a kernel; `name` stands for it.
Result<KernelResources> readKernelResources(std::string_view name,
                                            std::string_view code);

/// What a chip has for the waves that are on it together, in the smallest part
/// that runs whole blocks: a workgroup processor (gfx1151), a streaming
/// multiprocessor (sm_90).
struct ChipLimits {
  std::string_view chip;
  uint32_t parts;         ///< that split registers and waves: SIMDs
  uint32_t wavesPerPart;  ///< at most
  uint32_t registers;     ///< of a part, each for the 32 lanes of a wave
  uint32_t registerGrain; ///< a wave gets a multiple
  uint64_t sharedBytes;
  uint64_t sharedGrain;    ///< a block gets a multiple
  uint64_t sharedReserved; ///< besides, for each block
  uint32_t blocks;         ///< at most
  uint32_t waveBlocks;     ///< at most, of one wave each

  uint32_t waves() const { return parts * wavesPerPart; }
};

/// Of "gfx1151" or "sm_90" with suffixes ("sm_90a"); null for other chips.
const ChipLimits *findChipLimits(std::string_view chip);

/// Waves of full blocks of the kernel that are on such a part together.
uint32_t residentWaves(const KernelResources &kernel, const ChipLimits &chip);

} // namespace ds4

#endif // DS4_RUNTIME_KERNELRESOURCES_H
