// SyntheticWeights.cpp - see SyntheticWeights.h.
#include "runtime/SyntheticWeights.h"

#include "runtime/RandomRows.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

namespace ds4 {
namespace {

/// Random rows as they lie on the device, in memory that it copies from.
struct Pattern {
  uint64_t rows = 0, rowBytes = 0;
  std::byte *bytes = nullptr;
};

/// All that were made; ends with the device's copies.
class Patterns {
public:
  explicit Patterns(Device &device) : device(device) {}
  ~Patterns() {
    (void)device.synchronize();
    for (auto &[key, pattern] : patterns)
      device.freeStaging(pattern.bytes);
  }
  Result<const Pattern *> get(SplitMix &random, const WeightDesc &desc);

private:
  using Key = std::tuple<WeightFormat, WeightLayout, int64_t, uint32_t, bool>;
  Device &device;
  std::map<Key, Pattern> patterns;
};

Result<const Pattern *> Patterns::get(SplitMix &random,
                                      const WeightDesc &desc) {
  constexpr uint64_t kPatternBytes = 4 << 20;
  const Key key{desc.format, desc.layout, desc.shape.back(), desc.valueLimit,
                desc.shape.size() == 1};
  auto [it, isNew] = patterns.try_emplace(key);
  Pattern &pattern = it->second;
  if (!isNew)
    return &pattern;
  const auto elements = static_cast<uint64_t>(desc.shape.back());
  const uint64_t fileBytes = weightRowBytes(desc.format, elements);
  pattern.rowBytes = deviceRowBytes(desc.format, desc.layout, elements);
  pattern.rows = std::max<uint64_t>(1, kPatternBytes / pattern.rowBytes);
  DS4_ASSIGN(void *memory,
             device.allocateStaging(pattern.rows * pattern.rowBytes));
  pattern.bytes = static_cast<std::byte *>(memory);
  std::vector<std::byte> rows(pattern.rows * fileBytes);
  fillRandomRows(
      random, {desc.format, elements, desc.shape.size() == 1, desc.valueLimit},
      pattern.rows, rows.data());
  for (uint64_t row = 0; row < pattern.rows; ++row) {
    const std::byte *from = rows.data() + row * fileBytes;
    std::byte *to = pattern.bytes + row * pattern.rowBytes;
    if (desc.layout == WeightLayout::lanes)
      LaneRow::of(desc.format, elements)->pack(from, to);
    else
      std::memcpy(to, from, fileBytes);
  }
  return &pattern;
}

Status fill(Device &device, const WeightTarget &target, const Pattern &pattern,
            uint64_t firstRow) {
  const uint64_t bytes = deviceBytes(*target.desc);
  uint64_t from = firstRow % pattern.rows * pattern.rowBytes;
  for (uint64_t at = 0; at < bytes;) {
    const uint64_t size =
        std::min(bytes - at, pattern.rows * pattern.rowBytes - from);
    DS4_TRY(device.copyIn(static_cast<std::byte *>(target.memory) + at,
                          pattern.bytes + from, size));
    at += size;
    from = 0;
  }
  return Status::ok();
}

} // namespace

std::string SyntheticWeights::name() const {
  return fmt::format("synthetic weights of seed {}", seed);
}

Result<DecodeTables> SyntheticWeights::tables(const Plan &plan) const {
  SplitMix random(seed);
  DecodeTables tables;
  for (const BooksDesc &desc : plan.books) {
    DecodeTable table{desc.format, desc.experts, {}, {}, {}};
    table.books = randomBooks(random, desc.format, desc.experts);
    table.adaptive.assign(desc.experts, 1);
    table.rotated.assign(desc.experts, 0);
    tables.emplace(desc.weight, std::move(table));
  }
  return tables;
}

Result<LoadStats> SyntheticWeights::load(Device &device,
                                         std::span<const WeightTarget> targets,
                                         const LoadOptions &options) const {
  const auto begin = std::chrono::steady_clock::now();
  SplitMix random(seed);
  Patterns patterns(device);
  LoadStats stats;
  uint64_t total = 0;
  for (const WeightTarget &target : targets)
    total += target.desc->bytes;
  for (const WeightTarget &target : targets) {
    DS4_ASSIGN(const Pattern *pattern, patterns.get(random, *target.desc));
    DS4_TRY(fill(device, target, *pattern, random.next()));
    stats.bytes += target.desc->bytes;
    if (options.progress)
      options.progress(stats.bytes, total);
    if (options.cancelled && options.cancelled())
      return Error{ErrorCode::cancelled, "loading was cancelled"};
  }
  DS4_TRY(device.synchronize());
  stats.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  return stats;
}

} // namespace ds4
