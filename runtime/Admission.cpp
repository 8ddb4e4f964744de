// Admission.cpp - sums of the plan against what the kernel says is available.
#include "runtime/Admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace ds4 {

MemoryNeed memoryNeed(const Plan &plan, uint64_t stagingBytes) {
  MemoryNeed need;
  need.staging = stagingBytes;
  for (const WeightDesc &weight : plan.weights)
    need.weights += deviceBytes(weight);
  for (const BooksDesc &books : plan.books)
    need.weights += books.bytes();
  for (const RotationsDesc &rotations : plan.rotations)
    need.weights += rotations.experts * sizeof(int32_t);
  for (const StateDesc &state : plan.states)
    need.context += state.rows * state.rowBytes;
  for (const RopeTable &table : plan.tables)
    need.context += table.positions * table.dims * sizeof(float);
  for (const Function &function : plan.functions)
    need.arena = std::max(need.arena, function.arenaBytes);
  return need;
}

/// First number of a file, or nothing ("max").
static bool readNumber(const std::filesystem::path &path, uint64_t &number) {
  std::ifstream file(path);
  return static_cast<bool>(file >> number);
}

/// The bytes behind `key` in a file of lines such as "MemAvailable: 12 kB"; 0
/// if it is not there.
static uint64_t bytesOf(const char *path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t kilobytes;
    if (words >> name >> kilobytes && name == key)
      return kilobytes * 1024;
  }
  return 0;
}

uint64_t peakMemory() { return bytesOf("/proc/self/status", "VmHWM:"); }

uint64_t availableMemory() {
  uint64_t available = bytesOf("/proc/meminfo", "MemAvailable:");
  // Version 2 of control groups, as a container sees its own.
  uint64_t limit, used;
  if (readNumber("/sys/fs/cgroup/memory.max", limit) &&
      readNumber("/sys/fs/cgroup/memory.current", used)) {
    uint64_t left = limit > used ? limit - used : 0;
    // The page cache counts as used but gives way.
    std::ifstream stat("/sys/fs/cgroup/memory.stat");
    std::string key;
    for (uint64_t value; stat >> key >> value;)
      if (key == "inactive_file")
        left += value;
    available = available == 0 ? left : std::min(available, left);
  }
  return available;
}

MemoryLimit sharedMemoryLimit(uint64_t driverBytes, uint64_t hostBytes,
                              const std::filesystem::path &sys) {
  /// Of a machine whose memory is full of weights, for everything else.
  constexpr uint64_t kSystemBytes = uint64_t(3) << 30;
  constexpr uint64_t kPageBytes = 4096;
  MemoryLimit limit{hostBytes > kSystemBytes ? hostBytes - kSystemBytes : 1};
  const uint64_t mostBytes = limit.bytes;
  uint64_t gtt = 0; // of the card that may map most
  std::error_code code;
  for (const auto &card :
       std::filesystem::directory_iterator(sys / "class/drm", code)) {
    const std::filesystem::path folder = card.path() / "device";
    uint64_t total = 0, used = 0;
    if (readNumber(folder / "mem_info_gtt_total", total) &&
        readNumber(folder / "mem_info_gtt_used", used))
      gtt = std::max(gtt, total > used ? total - used : 1);
  }
  if (driverBytes != 0)
    gtt = gtt == 0 ? driverBytes : std::min(gtt, driverBytes);
  if (gtt == 0 || gtt >= mostBytes)
    return limit;
  limit.bytes = gtt;
  limit.raisedBytes = mostBytes;
  uint64_t pages = 0;
  limit.setting = fmt::format(
      "let GPUs map more of this machine's memory: boot with the kernel "
      "parameter ttm.pages_limit={}",
      mostBytes / kPageBytes);
  if (readNumber(sys / "module/ttm/parameters/pages_limit", pages))
    limit.setting += fmt::format(" (it is {})", pages);
  return limit;
}

std::string formatBytes(uint64_t bytes) {
  if (bytes >= 1'000'000'000)
    return fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9);
  if (bytes >= 1'000'000)
    return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
  if (bytes >= 1'000)
    return fmt::format("{:.1f} KB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{} bytes", bytes);
}

std::string memoryText(const MemoryNeed &need) {
  std::string text =
      fmt::format("weights {}, states and tables {}, activations {}",
                  formatBytes(need.weights), formatBytes(need.context),
                  formatBytes(need.arena));
  if (need.staging)
    text += fmt::format(", staging {}", formatBytes(need.staging));
  return text;
}

Status admit(const MemoryNeed &need, const MemoryLimit &limit,
             uint32_t context) {
  const uint64_t available = limit.bytes;
  if (available == 0 || need.total() <= available)
    return Status::ok();
  // Contexts are suggested in steps of this many tokens.
  constexpr uint64_t kContextStep = 256;
  uint64_t fixed = need.weights + need.arena + need.staging;
  uint64_t fitting = 0;
  if (fixed < available && need.context > 0)
    fitting =
        static_cast<uint64_t>(static_cast<double>(available - fixed) /
                              static_cast<double>(need.context) * context) /
        kContextStep * kContextStep;
  std::string advice;
  if (!limit.setting.empty() && need.total() <= limit.raisedBytes)
    advice = limit.setting;
  else if (fitting > 0)
    advice = fmt::format("rebuild the bundle with ds4c --context={}", fitting);
  else if (need.weights < available && need.arena > available - need.weights)
    advice = "rebuild the bundle with a smaller ds4c --prefill-chunk";
  else
    advice = "free memory or use a model file with smaller weights";
  return Error{
      ErrorCode::outOfMemory,
      fmt::format("not enough memory: {} needed (weights {}, context of {} "
                  "tokens {}, activations {}, staging {}), {} available; {}",
                  formatBytes(need.total()), formatBytes(need.weights), context,
                  formatBytes(need.context), formatBytes(need.arena),
                  formatBytes(need.staging), formatBytes(available), advice)};
}

} // namespace ds4
