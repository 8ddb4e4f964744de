// ReadBandwidth.cpp - reads in the widest pieces with many on their way, and
// uses the sum, so that no compiler drops the loads.
#include "tools/ReadBandwidth.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace ds4 {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRuns = 10;

double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Reads `count` vectors of 16 bytes, as kernels read weights.
constexpr const char *kReadKernel = R"(
extern "C" __global__ __launch_bounds__(512) void
ds4_read(const uint4 *from, const unsigned long long *count, unsigned *out) {
  const unsigned long long threads = 512ull * gridDim.x;
  unsigned sum = 0;
  for (unsigned long long i = blockIdx.x * 512ull + threadIdx.x;
       i + 7 * threads < *count; i += 8 * threads) {
    uint4 part[8];
#pragma unroll
    for (int j = 0; j < 8; ++j)
      part[j] = from[i + j * threads];
#pragma unroll
    for (int j = 0; j < 8; ++j)
      sum += part[j].x ^ part[j].y ^ part[j].z ^ part[j].w;
  }
  if (sum == 0x9e3779b9u)
    *out = sum;
}
)";

Result<double> ofKernel(Device &device, const RtcCompiler &compiler) {
  constexpr uint64_t kBytes = uint64_t(4) << 30;
  constexpr uint32_t kBlocks = 132 * 4;
  DS4_ASSIGN(std::string code, compiler.compile("ds4_read", kReadKernel));
  const KernelCode kernels[] = {{"ds4_read", std::move(code)}};
  DS4_TRY(device.loadKernels(kernels));
  DS4_ASSIGN(const Kernel *kernel, device.kernel("ds4_read", 0));
  DS4_ASSIGN(void *data, device.allocate(kBytes, "the bandwidth test"));
  DS4_ASSIGN(void *numbers, device.allocate(16, "the bandwidth test"));
  const uint64_t count = kBytes / 16;
  DS4_TRY(device.copyIn(numbers, &count, sizeof count));
  void *const args[] = {data, numbers, static_cast<std::byte *>(numbers) + 8};
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    DS4_TRY(device.synchronize());
    const auto begin = Clock::now();
    DS4_TRY(device.launch(kernel, kBlocks, 1, 512, args));
    DS4_TRY(device.synchronize());
    best = std::max(best, static_cast<double>(kBytes) / secondsSince(begin));
  }
  device.free(data);
  device.free(numbers);
  return best;
}

uint64_t sumOf(const uint64_t *from, uint64_t count) {
  constexpr uint64_t kSums = 8;
  uint64_t sums[kSums] = {};
  for (uint64_t i = 0; i + kSums <= count; i += kSums)
    for (uint64_t j = 0; j < kSums; ++j)
      sums[j] ^= from[i + j];
  uint64_t all = 0;
  for (uint64_t sum : sums)
    all ^= sum;
  return all;
}

double ofCpu(unsigned threads) {
  constexpr uint64_t kWords = uint64_t(32) << 20; // 256 MB
  if (threads == 0)
    threads = std::max(1u, std::thread::hardware_concurrency());
  const std::vector<uint64_t> data(kWords, 1);
  const uint64_t share = kWords / threads;
  std::atomic<uint64_t> sum = 0;
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    const auto begin = Clock::now();
    {
      std::vector<std::jthread> pool;
      for (unsigned i = 0; i < threads; ++i)
        pool.emplace_back(
            [&, i] { sum += sumOf(data.data() + i * share, share); });
    }
    const auto bytes = static_cast<double>(share * threads * sizeof(uint64_t));
    best = std::max(best, bytes / secondsSince(begin));
  }
  return best;
}

} // namespace

Result<double> readBandwidth(Device &device, unsigned threads) {
  if (device.target() == "host")
    return ofCpu(threads);
  DS4_ASSIGN(const std::unique_ptr<RtcCompiler> compiler, device.compiler());
  if (!compiler)
    return 0.0;
  return ofKernel(device, *compiler);
}

} // namespace ds4
