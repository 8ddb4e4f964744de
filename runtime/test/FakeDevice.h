// FakeDevice.h - a Device whose kernels are C++ functions of the test: records
// launches, checks that copies stay inside allocations. Knows no real kernel.
#ifndef DS4_RUNTIME_TEST_FAKEDEVICE_H
#define DS4_RUNTIME_TEST_FAKEDEVICE_H

#include "runtime/BundleFormat.h"
#include "runtime/Device.h"

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ds4 {

struct Kernel {
  std::string symbol;
};

namespace test {

/// A launch as the device saw it.
struct SeenLaunch {
  std::string symbol;
  uint32_t gridX, gridY, block;
  Step step; ///< what the last argument pointed to
};

/// What outlives the device, which a Session owns.
struct DeviceLog {
  std::vector<SeenLaunch> launches;
  std::vector<std::string> allocations; ///< names
  uint64_t liveBytes = 0;
  bool objectLoaded = false;
  std::vector<std::string> codeLoaded; ///< SYMBOL: CODE
};

class FakeDevice : public Device {
public:
  /// Work of a kernel: arguments, rows.
  using Work = std::function<void(std::span<void *const>, uint32_t gridY)>;

  FakeDevice(std::shared_ptr<DeviceLog> log, std::map<std::string, Work> works,
             std::string name = "fake")
      : log(std::move(log)), works(std::move(works)), name(std::move(name)) {}
  ~FakeDevice() override {
    for (auto &[memory, buffer] : buffers)
      log->liveBytes -= buffer.size();
  }

  std::string_view target() const override { return name; }

  Result<void *> allocate(uint64_t bytes, std::string_view what) override {

    std::vector<std::byte> buffer(bytes);
    void *memory = buffer.data();
    log->liveBytes += bytes;
    log->allocations.emplace_back(what);
    buffers.emplace(memory, std::move(buffer));
    return memory;
  }
  void free(void *memory) override {
    auto it = buffers.find(memory);
    log->liveBytes -= it->second.size();
    buffers.erase(it);
  }

  Status copyIn(void *device, const void *host, uint64_t bytes) override {
    if (!inside(device, bytes))
      return outside();
    std::memcpy(device, host, bytes);
    return Status::ok();
  }
  Status copyOut(void *host, const void *device, uint64_t bytes) override {
    if (!inside(device, bytes))
      return outside();
    std::memcpy(host, device, bytes);
    return Status::ok();
  }

  Status loadKernels(std::span<const KernelCode> kernels) override {
    for (const KernelCode &kernel : kernels)
      log->codeLoaded.push_back(kernel.symbol + ": " + kernel.code);
    return Status::ok();
  }
  Status loadObject(const std::filesystem::path &) override {
    log->objectLoaded = true;
    return Status::ok();
  }
  Result<const Kernel *> kernel(std::string_view symbol, uint32_t) override {
    if (works.find(std::string(symbol)) == works.end())
      return Error{ErrorCode::deviceError,
                   "the object has no kernel " + std::string(symbol)};
    auto &kernel = kernels[std::string(symbol)];
    kernel.symbol = symbol;
    return &kernel;
  }

  Status launch(const Kernel *kernel, uint32_t gridX, uint32_t gridY,
                uint32_t block, std::span<void *const> args) override {
    SeenLaunch seen{kernel->symbol, gridX, gridY, block, {}};
    seen.step = *static_cast<const Step *>(args.back());
    log->launches.push_back(seen);
    works.at(kernel->symbol)(args, gridY);
    return Status::ok();
  }
  Status synchronize() override { return Status::ok(); }

private:
  bool inside(const void *at, uint64_t bytes) const {
    auto it = buffers.upper_bound(const_cast<void *>(at));
    if (it == buffers.begin())
      return false;
    --it;
    auto offset = static_cast<const std::byte *>(at) -
                  static_cast<const std::byte *>(it->first);
    return static_cast<uint64_t>(offset) + bytes <= it->second.size();
  }
  static Error outside() {
    return {ErrorCode::deviceError, "a copy outside of any allocation"};
  }

  std::shared_ptr<DeviceLog> log;
  std::map<std::string, Work> works;
  std::string name;
  std::map<void *, std::vector<std::byte>> buffers;
  std::map<std::string, Kernel> kernels;
};

} // namespace test
} // namespace ds4

#endif // DS4_RUNTIME_TEST_FAKEDEVICE_H
