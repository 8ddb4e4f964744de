// BenchCommand.cpp - times whole steps by the clock, after one that is not
// counted. Tokens are random: what a step costs does not depend on them but for
// which experts it reads.
#include "tools/BenchCommand.h"

#include "runtime/Admission.h"
#include "runtime/SyntheticWeights.h"
#include "tools/OpenSession.h"
#include "tools/Terminal.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <random>

namespace ds4 {
namespace {

using Clock = std::chrono::steady_clock;

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

/// Bytes a second that a kernel reads from the device's memory; 0 where no
/// kernel can be compiled for it.
Result<double> readBandwidth(Device &device) {
  constexpr uint64_t kBytes = uint64_t(4) << 30;
  constexpr uint32_t kBlocks = 132 * 4;
  constexpr int kRuns = 10;
  DS4_ASSIGN(const std::unique_ptr<RtcCompiler> compiler, device.compiler());
  if (!compiler)
    return 0.0;
  DS4_ASSIGN(std::string code, compiler->compile("ds4_read", kReadKernel));
  const KernelCode kernels[] = {{"ds4_read", std::move(code)}};
  DS4_TRY(device.loadKernels(kernels));
  DS4_ASSIGN(const Kernel *kernel, device.kernel("ds4_read"));
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

/// A session and what is measured with it.
class Bench {
public:
  Bench(Session &session, double bandwidth, const RunOptions &options)
      : session(session), bandwidth(bandwidth), options(options) {}

  Status run();

private:
  std::vector<int32_t> randomIds(uint32_t count);
  /// Seconds of processing `count` random tokens, all or the last selected.
  Result<double> step(uint32_t count, bool all);
  Status fillTo(uint32_t depth);
  Status prefill(uint32_t count);
  Status decode(uint32_t depth);
  Status verify(uint32_t depth);
  Status byOp();
  void row(std::string_view name, double tokens, double seconds,
           uint64_t weightBytes);

  Session &session;
  double bandwidth;
  const RunOptions &options;
  std::minstd_rand random{1};
};

std::vector<int32_t> Bench::randomIds(uint32_t count) {
  std::vector<int32_t> ids(count);
  for (int32_t &id : ids)
    id = static_cast<int32_t>(random() % session.vocab());
  return ids;
}

Result<double> Bench::step(uint32_t count, bool all) {
  const std::vector<int32_t> ids = randomIds(count);
  std::vector<uint32_t> rows(all ? count : 1, count - 1);
  if (all)
    std::iota(rows.begin(), rows.end(), 0);
  const auto begin = Clock::now();
  DS4_TRY(session.greedy(ids, rows));
  return secondsSince(begin);
}

Status Bench::fillTo(uint32_t depth) {
  if (session.position() > depth)
    DS4_TRY(session.rollback(0));
  if (session.position() < depth) {
    DS4_TRY(step(depth - session.position(), false));
  }
  return Status::ok();
}

void Bench::row(std::string_view name, double tokens, double seconds,
                uint64_t weightBytes) {
  const double rate = static_cast<double>(weightBytes) / seconds;
  fmt::print("{:<22} {:>9.2f} {:>9.3f}", name, tokens / seconds, seconds * 1e3);
  if (weightBytes)
    fmt::print(" {:>9} {:>9.1f}", formatBytes(weightBytes), rate / 1e9);
  if (weightBytes && bandwidth > 0)
    fmt::print(" {:>8.1f} %", 100 * rate / bandwidth);
  fmt::print("\n");
  std::fflush(stdout);
}

Status Bench::prefill(uint32_t count) {
  std::vector<double> seconds;
  for (int run = 0; run < 3; ++run) {
    DS4_TRY(session.rollback(0));
    DS4_ASSIGN(seconds.emplace_back(), step(count, false));
  }
  row(fmt::format("prefill {}", count), count,
      *std::min_element(seconds.begin() + 1, seconds.end()), 0);
  return Status::ok();
}

Status Bench::decode(uint32_t depth) {
  DS4_TRY(fillTo(depth));
  DS4_TRY(step(1, true)); // captures the step
  std::vector<double> seconds;
  const uint32_t most = session.context() - session.position();
  for (uint32_t i = 0; i < std::min(options.benchTokens, most); ++i) {
    DS4_ASSIGN(seconds.emplace_back(), step(1, true));
  }
  const double mean = std::accumulate(seconds.begin(), seconds.end(), 0.0) /
                      static_cast<double>(seconds.size());
  row(fmt::format("decode at {}", depth), 1, mean,
      session.weightBytesPerToken());
  return Status::ok();
}

Status Bench::verify(uint32_t depth) {
  constexpr uint32_t kMost = 5;
  constexpr int kRuns = 8;
  for (uint32_t count = 2; count <= kMost; ++count) {
    if (count > session.mostRollback())
      break;
    DS4_TRY(fillTo(depth));
    double sum = 0;
    for (int run = 0; run <= kRuns; ++run) {
      DS4_ASSIGN(const double seconds, step(count, true));
      sum += run ? seconds : 0;
      DS4_TRY(session.rollback(session.position() - count));
    }
    row(fmt::format("verify {} at {}", count, depth), count, sum / kRuns, 0);
  }
  return Status::ok();
}

/// Time of the launches of decode steps by op, each waited for: a wait costs
/// some microseconds a launch.
Status Bench::byOp() {
  struct Sum {
    uint32_t launches = 0;
    double seconds = 0;
    uint64_t weightBytes = 0;
  };
  constexpr int kSteps = 4;
  std::map<std::string, Sum> sums;
  session.hooks.timing = [&](const Function &, const Launch &launch,
                             const Step &, int64_t begin, int64_t end) {
    Sum &sum = sums[fmt::format("{} {}x{}", launch.label, launch.grid[0],
                                launch.block)];
    ++sum.launches;
    sum.seconds += static_cast<double>(end - begin) * 1e-9;
    sum.weightBytes += launch.weightBytesPerToken;
  };
  Status status;
  for (int i = 0; i < kSteps && status; ++i) {
    Result<double> seconds = step(1, true);
    if (!seconds)
      status = seconds.error();
  }
  session.hooks.timing = nullptr;
  DS4_TRY(std::move(status));
  std::vector<std::pair<std::string, Sum>> sorted(sums.begin(), sums.end());
  std::ranges::sort(sorted, [](const auto &a, const auto &b) {
    return a.second.seconds > b.second.seconds;
  });
  fmt::print("\n{:<34} {:>8} {:>9} {:>9} {:>9}\n", "decode, by op and grid",
             "launches", "us each", "ms a step", "GB/s");
  for (const auto &[name, sum] : sorted)
    fmt::print("{:<34} {:>8} {:>9.1f} {:>9.3f} {:>9.1f}\n", name,
               sum.launches / kSteps, sum.seconds / sum.launches * 1e6,
               sum.seconds / kSteps * 1e3,
               static_cast<double>(sum.weightBytes) / sum.seconds / 1e9);
  return Status::ok();
}

Status Bench::run() {
  fmt::print("{:<22} {:>9} {:>9} {:>9} {:>9} {:>10}\n", "test", "tok/s", "ms",
             "weights", "GB/s", "of read");
  for (uint32_t count : options.benchPrefill)
    if (count <= session.context())
      DS4_TRY(prefill(count));
  for (uint32_t depth : options.benchDepths) {
    if (depth + 8 > session.context())
      continue;
    DS4_TRY(verify(depth));
    DS4_TRY(decode(depth));
    if (options.benchOps)
      DS4_TRY(byOp());
  }
  return Status::ok();
}

} // namespace

static constexpr const char *kHelp =
    R"(ds4run bench: how fast a bundle runs
usage: ds4run bench BUNDLE (-m MODEL.gguf | --synthetic=SEED) [options]
  --synthetic=SEED   random weights: no model file is needed, and the bundle
                     may be of a shape (ds4c --shape)
  --prefill=N,...    prompts to time (default 512,2048)
  --depths=N,...     positions at which to decode and verify (default 0,2048)
  --tokens=N         steps of decoding to time (default 64)
  --ops              time of a decode step by op
  --device=NAME      host (default), cuda, hip, cuda:1, ...
  --threads=N        of the CPU (default: one a core)
  --prefill-chunk=N  most tokens a prefill step (default: the bundle's)
The table has whole steps with the selection of the next token. GB/s counts the
weights that one token needs; `of read` compares with a kernel that only reads.
Depths beyond the bundle's context are left out.
example: ds4c --shape=v4-flash-mix --target=sm_90 -o mix.ds4b
         ds4run bench mix.ds4b --synthetic=1 --device=cuda
)";

void addBenchOptions(CLI::App &command, RunOptions &options) {
  command.formatter_fn([](const CLI::App *, std::string, CLI::AppFormatMode) {
    return std::string(kHelp);
  });
  command.add_option("BUNDLE", options.bundle)->required();
  command.add_option("-m,--model", options.model);
  command.add_option("--synthetic", options.synthetic);
  command.add_option("--prefill", options.benchPrefill)->delimiter(',');
  command.add_option("--depths", options.benchDepths)->delimiter(',');
  command.add_option("--tokens", options.benchTokens)
      ->check(CLI::Range(1, 1 << 20));
  command.add_flag("--ops", options.benchOps);
  addDeviceOptions(command, options);
}

std::string checkBenchOptions(const RunOptions &options) {
  if (options.model.empty() != options.synthetic.has_value())
    return "bench needs -m MODEL.gguf or --synthetic=SEED";
  return {};
}

Status runBenchCommand(const RunOptions &options) {
  DS4_ASSIGN(Bundle bundle, openBundle(options.bundle));
  DS4_ASSIGN(std::unique_ptr<Device> device,
             createDevice(options.device, options.threads));
  DS4_ASSIGN(const double bandwidth, readBandwidth(*device));
  const std::string name = bundle.manifest.modelName;
  std::unique_ptr<Session> session;
  if (options.synthetic) {
    DS4_ASSIGN(session, openSession(std::move(bundle),
                                    SyntheticWeights(*options.synthetic),
                                    std::move(device), options));
  } else {
    DS4_ASSIGN(const Gguf file, Gguf::open(options.model));
    DS4_ASSIGN(session, openSession(std::move(bundle), file, std::move(device),
                                    options));
  }
  session->hooks.cancelled = interrupted;
  fmt::print("{} on {}, weights {}", name, options.device,
             formatBytes(session->memory().weights));
  if (bandwidth > 0)
    fmt::print(", reads {:.0f} GB/s", bandwidth / 1e9);
  fmt::print("\n\n");
  return Bench(*session, bandwidth, options).run();
}

} // namespace ds4
