// DevicesCommand.cpp - asks each driver what is there.
#include "tools/DevicesCommand.h"

#include "runtime/Admission.h"
#include "runtime/Device.h"

#include <fmt/format.h>

#include <thread>

namespace ds4 {

/// CUDA counts 1000 major + 10 minor, HIP 10^7 major + 10^5 minor + patch.
static std::string versionText(GpuKind kind, int version) {
  return kind == GpuKind::cuda
             ? fmt::format("{}.{}", version / 1000, version % 1000 / 10)
             : fmt::format("{}.{}", version / 10'000'000,
                           version / 100'000 % 100);
}

static std::string gpusText(GpuKind kind, std::string_view name) {
  const Result<std::vector<GpuInfo>> gpus = listGpus(kind);
  if (!gpus)
    return fmt::format("{:<8} none: {}\n", name, gpus.error().text);
  std::string text;
  for (size_t i = 0; i < gpus->size(); ++i) {
    const GpuInfo &it = (*gpus)[i];
    text += fmt::format("{:<8} {}, {}, {}, {} multiprocessors, driver for {}\n",
                        fmt::format("{}:{}", name, i), it.name, it.target,
                        formatBytes(it.totalBytes), it.multiprocessors,
                        versionText(kind, it.driverVersion));
  }
  return text;
}

std::string devicesText() {
  return fmt::format("{:<8} this machine, {} threads, {} available\n", "host",
                     std::thread::hardware_concurrency(),
                     formatBytes(availableMemory())) +
         gpusText(GpuKind::cuda, "cuda") + gpusText(GpuKind::hip, "hip");
}

} // namespace ds4
