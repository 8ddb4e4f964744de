// HostDevice.cpp - the CPU as a device: kernels are entries of a shared
// object, blocks are dealt to a fixed set of threads, the lanes of a block are
// fibers (HostLanes.h). Which thread runs a block never changes a result.
#include "runtime/Device.h"
#include "runtime/HostLanes.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace ds4 {
namespace {

/// What a `const Kernel *` of this device points to.
struct HostKernel {
  std::string symbol;
  HostEntry entry;
};

/// The blocks of a launch that no thread has taken yet.
struct Job {
  const HostKernel *kernel;
  void *const *args;
  uint32_t gridX, block;
  uint64_t blocks; ///< all of the grid
  uint64_t chunk;  ///< blocks that a thread takes at once
  std::atomic<uint64_t> next{0};
  std::mutex failureMutex;
  uint64_t failedBlock = ~uint64_t{0}; ///< the lowest that failed
  std::optional<Error> failure;

  void work(HostLanes &lanes);
};

void Job::work(HostLanes &lanes) {
  for (;;) {
    const uint64_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
    if (begin >= blocks)
      return;
    const uint64_t end = std::min(begin + chunk, blocks);
    for (uint64_t i = begin; i < end; ++i) {
      Status status = lanes.runBlock(kernel->entry, args, block,
                                     static_cast<uint32_t>(i % gridX),
                                     static_cast<uint32_t>(i / gridX));
      if (status)
        continue;
      std::lock_guard lock(failureMutex);
      if (i < failedBlock) {
        failedBlock = i;
        failure = status.error();
      }
      return;
    }
  }
}

/// The device's threads besides the caller's.
class Workers {
public:
  explicit Workers(unsigned count) {
    for (unsigned i = 0; i < count; ++i)
      threads.emplace_back([this] { run(); });
  }
  ~Workers() {
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    wake.notify_all();
    for (std::thread &thread : threads)
      thread.join();
  }

  /// Runs `job` on the caller's thread and on those that come in time.
  void run(Job &job, HostLanes &callersLanes) {
    if (threads.empty() || job.blocks == 1)
      return job.work(callersLanes);
    {
      std::lock_guard lock(mutex);
      current = &job;
      ++jobs;
    }
    wake.notify_all();
    job.work(callersLanes);
    std::unique_lock lock(mutex);
    current = nullptr;
    done.wait(lock, [this] { return inside == 0; });
  }

private:
  void run() {
    HostLanes lanes;
    uint64_t seen = 0;
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait(lock, [&] { return stopping || (current && jobs != seen); });
      if (stopping)
        return;
      seen = jobs;
      Job &job = *current;
      ++inside;
      lock.unlock();
      job.work(lanes);
      lock.lock();
      if (--inside == 0)
        done.notify_one();
    }
  }

  std::mutex mutex;
  std::condition_variable wake, done;
  Job *current = nullptr;
  uint64_t jobs = 0;
  unsigned inside = 0;
  bool stopping = false;
  std::vector<std::thread> threads;
};

class HostDevice final : public Device {
public:
  explicit HostDevice(unsigned threads)
      : threadCount(threads), workers(threads - 1) {}
  ~HostDevice() override { closeObject(); }

  std::string_view target() const override { return "host"; }
  Result<void *> allocate(uint64_t bytes, std::string_view what) override;
  void free(void *memory) override { std::free(memory); }
  Status copyIn(void *device, const void *host, uint64_t bytes) override {
    if (bytes)
      std::memcpy(device, host, bytes);
    return Status::ok();
  }
  Status copyOut(void *host, const void *device, uint64_t bytes) override {
    if (bytes)
      std::memcpy(host, device, bytes);
    return Status::ok();
  }
  Status loadObject(const std::filesystem::path &path) override;
  Result<const Kernel *> kernel(std::string_view symbol,
                                uint32_t sharedBytes) override;
  Status launch(const Kernel *kernel, uint32_t gridX, uint32_t gridY,
                uint32_t block, std::span<void *const> args) override;
  Status synchronize() override { return Status::ok(); }

private:
  void closeObject();

  unsigned threadCount;
  void *object = nullptr;
  std::filesystem::path objectPath;
  std::map<std::string, HostKernel, std::less<>> kernels;
  HostLanes lanes;
  Workers workers;
};

Result<void *> HostDevice::allocate(uint64_t bytes, std::string_view what) {
  constexpr uint64_t kAlignment = 256, kReadablePast = 16;
  const uint64_t size =
      (bytes + kReadablePast + kAlignment - 1) / kAlignment * kAlignment;
  void *memory = size > bytes ? std::aligned_alloc(kAlignment, size) : nullptr;
  if (!memory)
    return Error{ErrorCode::outOfMemory,
                 fmt::format("this machine has no {} bytes of memory for {}: "
                             "use a smaller context or model",
                             bytes, what)};
  std::memset(memory, 0, size);
  return memory;
}

void HostDevice::closeObject() {
  kernels.clear();
  if (object)
    dlclose(object);
  object = nullptr;
}

Status HostDevice::loadObject(const std::filesystem::path &path) {
  closeObject();
  // A name without a slash would be searched for in the library path.
  object =
      dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!object)
    return Error{ErrorCode::deviceError,
                 fmt::format("{} cannot be loaded as kernels for this machine: "
                             "{}; build the bundle again with ds4c",
                             path.string(), dlerror())};
  objectPath = path;
  return Status::ok();
}

/// Units for the host have all their LDS as arrays of the thread.
Result<const Kernel *> HostDevice::kernel(std::string_view symbol,
                                          uint32_t /*sharedBytes*/) {
  auto it = kernels.find(symbol);
  if (it == kernels.end()) {
    const std::string name(symbol);
    void *address = object ? dlsym(object, (name + "_entry").c_str()) : nullptr;
    if (!address)
      return Error{ErrorCode::deviceError,
                   fmt::format("{} has no kernel {}: build the bundle again "
                               "with ds4c",
                               object ? objectPath.string() : "the device",
                               symbol)};
    it = kernels
             .emplace(name,
                      HostKernel{name, reinterpret_cast<HostEntry>(address)})
             .first;
  }
  return reinterpret_cast<const Kernel *>(&it->second);
}

Status HostDevice::launch(const Kernel *kernel, uint32_t gridX, uint32_t gridY,
                          uint32_t block, std::span<void *const> args) {
  const auto *hostKernel = reinterpret_cast<const HostKernel *>(kernel);
  if (block == 0 || block % 32 != 0 || block > kMaxHostBlock)
    return invalidInput(fmt::format(
        "kernel {} has blocks of {} threads; the host takes multiples of 32 "
        "up to {}",
        hostKernel->symbol, block, kMaxHostBlock));
  Job job;
  job.kernel = hostKernel;
  job.args = args.data();
  job.gridX = gridX;
  job.block = block;
  job.blocks = uint64_t{gridX} * gridY;
  if (job.blocks == 0)
    return Status::ok();
  // Eight turns a thread even out blocks of different cost.
  job.chunk = std::max<uint64_t>(1, job.blocks / (uint64_t{threadCount} * 8));
  workers.run(job, lanes);
  if (job.failure)
    return Error{
        job.failure->code,
        fmt::format("kernel {}: {}", hostKernel->symbol, job.failure->text)};
  return Status::ok();
}

} // namespace

Result<std::unique_ptr<Device>> createHostDevice(unsigned threads) {
  if (threads == 0)
    threads = std::max(1u, std::thread::hardware_concurrency());
  constexpr unsigned kMostThreads = 1024;
  if (threads > kMostThreads)
    return invalidInput(fmt::format("{} threads were asked for; {} is the most",
                                    threads, kMostThreads));
  std::unique_ptr<Device> device;
  try {
    device = std::make_unique<HostDevice>(threads);
  } catch (const std::exception &error) {
    return Error{
        ErrorCode::deviceError,
        fmt::format("{} threads cannot be started: {}", threads, error.what())};
  }
  return device;
}

} // namespace ds4
