// Device.cpp - what devices share, and their names.
#include "runtime/Device.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

namespace ds4 {

Result<void *> Device::allocateStaging(uint64_t bytes) {
  constexpr uint64_t kAlignment = 4096;
  const uint64_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (void *memory = std::aligned_alloc(kAlignment, size))
    return memory;
  return Error{ErrorCode::outOfMemory,
               "no memory for the staging buffers of the load"};
}

void Device::freeStaging(void *memory) { std::free(memory); }

Status Device::loadKernels(std::span<const KernelCode>) {
  return Error{ErrorCode::deviceError,
               fmt::format("{} does not take single units", target())};
}

Result<const Graph *> Device::endCapture() {
  return Error{ErrorCode::deviceError,
               fmt::format("{} captures no launches", target())};
}

Status Device::launchGraph(const Graph *) {
  return Error{ErrorCode::deviceError,
               fmt::format("{} captures no launches", target())};
}

Status Device::readBack(std::span<const ReadBack> buffers) {
  DS4_TRY(synchronize());
  for (const ReadBack &it : buffers)
    DS4_TRY(copyOut(it.host, it.device, it.bytes));
  return Status::ok();
}

Result<std::unique_ptr<Device>> createDevice(std::string_view name,
                                             unsigned threads) {
  if (name == "host")
    return createHostDevice(threads);
  const std::string_view kind = name.substr(0, name.find(':'));
  unsigned ordinal = 0;
  bool valid = kind == "cuda" || kind == "hip";
  if (valid && kind.size() < name.size()) {
    const char *begin = name.data() + kind.size() + 1;
    const char *end = name.data() + name.size();
    const auto [rest, code] = std::from_chars(begin, end, ordinal);
    valid = code == std::errc() && rest == end;
  }
  if (!valid)
    return invalidInput(fmt::format("'{}' is no device: host, cuda, hip or one "
                                    "by number as in cuda:1",
                                    name));
  return createGpuDevice(kind == "cuda" ? GpuKind::cuda : GpuKind::hip,
                         ordinal);
}

} // namespace ds4
