// HostLanes.h - runs the blocks of a kernel that was compiled for the host:
// the lanes of a block are fibers of one thread that switch only where lanes
// meet (cross-lane operations, barriers). Not for spreading blocks over
// threads; HostDevice.cpp does that.
#ifndef DS4_RUNTIME_HOSTLANES_H
#define DS4_RUNTIME_HOSTLANES_H

#include "runtime/Result.h"

#include <cstdint>
#include <memory>

namespace ds4 {

/// A kernel as HostDevice calls it: once a lane, with its pointer arguments.
using HostEntry = void (*)(void *const *args);

/// Most threads of a block.
inline constexpr uint32_t kMaxHostBlock = 1024;

/// The fibers of one thread, kept from block to block. Their stacks are made
/// when a block first needs them: 2 MiB of address space for each wave that
/// waits at a barrier while another runs.
class HostLanes {
public:
  HostLanes();
  ~HostLanes();
  HostLanes(const HostLanes &) = delete;
  HostLanes &operator=(const HostLanes &) = delete;

  /// Runs one block of `threads` lanes, a multiple of 32 up to kMaxHostBlock.
  /// Error: lanes that should meet do not; the text says how, and the caller
  /// adds the kernel's name.
  Status runBlock(HostEntry entry, void *const *args, uint32_t threads,
                  uint32_t blockX, uint32_t blockY);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace ds4

#endif // DS4_RUNTIME_HOSTLANES_H
