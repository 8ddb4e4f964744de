// Device.h - what the runtime needs of a target: memory, kernels, launches.
// One implementation a target (HostDevice.cpp; GPUs by dlopen).
#ifndef DS4_RUNTIME_DEVICE_H
#define DS4_RUNTIME_DEVICE_H

#include "runtime/KernelBuild.h"
#include "runtime/Result.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ds4 {

/// A loaded kernel; valid as long as its device.
struct Kernel;

/// Launches that were captured; valid as long as its device.
struct Graph;

/// A copy to the host.
struct ReadBack {
  void *host;
  const void *device;
  uint64_t bytes;
};

/// How much memory can be allocated.
struct MemoryLimit {
  uint64_t bytes = 0; ///< 0: unknown
  /// What to do to get `raisedBytes`, for messages; may be empty.
  std::string setting{};
  uint64_t raisedBytes = 0;
};

/// A device and the code object loaded on it. Not thread safe.
class Device {
public:
  virtual ~Device() = default;

  /// The target's name as in bundles: "host", "gfx1151", "sm_90".
  virtual std::string_view target() const = 0;

  /// What it can give now; nothing: it uses the host's as any program does.
  virtual std::optional<MemoryLimit> memoryLimit() { return std::nullopt; }
  /// Whether kernels read allocateStaging() memory as fast as its own.
  virtual bool sharesMemory() const { return false; }

  /// Zeroed memory, aligned to 256 bytes and readable 16 bytes past the end.
  /// `what` names the buffer in the error text.
  virtual Result<void *> allocate(uint64_t bytes, std::string_view what) = 0;
  virtual void free(void *memory) = 0;

  /// Memory of the host from which copyIn() is fast, aligned to 4096 bytes;
  /// copies from it may go on until synchronize().
  virtual Result<void *> allocateStaging(uint64_t bytes);
  virtual void freeStaging(void *memory);

  virtual Status copyIn(void *device, const void *host, uint64_t bytes) = 0;
  virtual Status copyOut(void *host, const void *device, uint64_t bytes) = 0;

  /// Compiles units for this device where a bundle has no object for it; null:
  /// the device takes objects only. Error: the compiler is not there.
  virtual Result<std::unique_ptr<RtcCompiler>> compiler() {
    return std::unique_ptr<RtcCompiler>();
  }
  /// Loads what compiler() made.
  virtual Status loadKernels(std::span<const KernelCode> kernels);
  /// Loads the code object of a bundle; replaces an earlier one.
  virtual Status loadObject(const std::filesystem::path &object) = 0;
  /// A kernel whose blocks take `sharedBytes` of LDS besides their static
  /// arrays. Error: the object has no such kernel, or a block has not so much.
  virtual Result<const Kernel *> kernel(std::string_view symbol,
                                        uint32_t sharedBytes) = 0;

  /// Runs `kernel` over gridX x gridY blocks of `block` threads. `args` are
  /// device pointers in the kernel's order. Results are the same for every
  /// number of threads or multiprocessors.
  virtual Status launch(const Kernel *kernel, uint32_t gridX, uint32_t gridY,
                        uint32_t block, std::span<void *const> args) = 0;
  /// Keeps what launch() is asked for from here to endCapture() instead of
  /// running it. A launch may then begin while the one before it ends: kernels
  /// wait for its results themselves (wait_for_previous() in ops/launch.h).
  /// False: the device does not; launch() runs as ever.
  virtual bool beginCapture() { return false; }
  virtual Result<const Graph *> endCapture();
  /// Runs a captured sequence of launches.
  virtual Status launchGraph(const Graph *graph);

  /// Copies several buffers out, waiting once.
  virtual Status readBack(std::span<const ReadBack> buffers);
  /// Waits until every launch and copy has finished.
  virtual Status synchronize() = 0;
};

/// The CPU: lanes are fibers, blocks are spread over `threads` threads (0: one
/// a core).
Result<std::unique_ptr<Device>> createHostDevice(unsigned threads);

/// Whose driver: NVIDIA's or AMD's HIP.
enum class GpuKind { cuda, hip };

struct GpuInfo {
  std::string name, target;
  uint64_t totalBytes = 0;
  int multiprocessors = 0;
  int driverVersion = 0; ///< as the driver counts: 13000 is CUDA 13.0
};

/// Errors: no driver, no device.
Result<std::vector<GpuInfo>> listGpus(GpuKind kind);

/// Error besides: there is no device of this number.
Result<std::unique_ptr<Device>> createGpuDevice(GpuKind kind, unsigned ordinal);

/// From "host", "cuda", "hip", "cuda:1", ...; `threads` are the host's.
Result<std::unique_ptr<Device>> createDevice(std::string_view name,
                                             unsigned threads);

} // namespace ds4

#endif // DS4_RUNTIME_DEVICE_H
