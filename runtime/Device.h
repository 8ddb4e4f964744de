// Device.h - what the runtime needs of a target: memory, kernels, launches.
// One implementation a target (HostDevice.cpp; GPUs by dlopen).
#ifndef DS4_RUNTIME_DEVICE_H
#define DS4_RUNTIME_DEVICE_H

#include "runtime/Result.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ds4 {

/// A loaded kernel; valid as long as its device.
struct Kernel;

/// A device and the code object loaded on it. Not thread safe.
class Device {
public:
  virtual ~Device() = default;

  /// The target's name as in bundles: "host", "gfx1151", "sm_90".
  virtual std::string_view target() const = 0;

  /// Zeroed memory, aligned to 256 bytes and readable 16 bytes past the end.
  /// `what` names the buffer in the error text.
  virtual Result<void *> allocate(uint64_t bytes, std::string_view what) = 0;
  virtual void free(void *memory) = 0;

  virtual Status copyIn(void *device, const void *host, uint64_t bytes) = 0;
  virtual Status copyOut(void *host, const void *device, uint64_t bytes) = 0;

  /// Loads the code object of a bundle; replaces an earlier one.
  virtual Status loadObject(const std::filesystem::path &object) = 0;
  /// Error: the object has no such kernel.
  virtual Result<const Kernel *> kernel(std::string_view symbol) = 0;

  /// Runs `kernel` over gridX x gridY blocks of `block` threads. `args` are
  /// device pointers in the kernel's order. Results are the same for every
  /// number of threads or multiprocessors.
  virtual Status launch(const Kernel *kernel, uint32_t gridX, uint32_t gridY,
                        uint32_t block, std::span<void *const> args) = 0;
  /// Waits until every launch and copy has finished.
  virtual Status synchronize() = 0;
};

/// The CPU: lanes are fibers, blocks are spread over `threads` threads (0: one
/// a core).
Result<std::unique_ptr<Device>> createHostDevice(unsigned threads);

} // namespace ds4

#endif // DS4_RUNTIME_DEVICE_H
