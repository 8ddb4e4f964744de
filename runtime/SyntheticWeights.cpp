// SyntheticWeights.cpp - random codes with scales that give a row a norm of
// about 1, so that activations keep their size from layer to layer.
#include "runtime/SyntheticWeights.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

namespace ds4 {
namespace {

/// splitmix64.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  uint64_t next() {
    uint64_t x = state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
  }
  /// In [-1, 1).
  float signedUnit() {
    return static_cast<float>(static_cast<int64_t>(next()) >> 40) * 0x1p-23f;
  }

private:
  uint64_t state;
};

/// Sets the scales of a block whose other bytes are random.
void setScales(const WeightFormatInfo &info, uint8_t *block) {
  for (uint32_t i = 0; i < info.scaleCount; ++i) {
    uint8_t *scale = block + info.scaleOffset;
    switch (info.scaleKind) {
    case ScaleKind::f16: // 2^-12 to 2^-11
      scale[2 * i + 1] = static_cast<uint8_t>(0x0c | (scale[2 * i + 1] & 3));
      break;
    case ScaleKind::ue4m3: // 2^-6 to 2^-5
      scale[i] = static_cast<uint8_t>(0x10 | (scale[i] & 7));
      break;
    case ScaleKind::ue4m3Book:
    case ScaleKind::ue4m3Sign:
      scale[i] = static_cast<uint8_t>(0x10 | (scale[i] & 0x87));
      break;
    case ScaleKind::e8m0: // 2^-8
      scale[i] = 119;
      break;
    case ScaleKind::none:
      break;
    }
  }
}

/// A value of a matrix with rows of `columns` values, or of a vector (1).
float floatValue(Random &random, uint64_t columns) {
  if (columns == 1)
    return 1.0f + 0.125f * random.signedUnit();
  return random.signedUnit() * std::sqrt(3.0f / static_cast<float>(columns));
}

uint16_t f16Bits(float x) { // |x| in [2^-14, 1], rounded towards zero
  const auto bits = std::bit_cast<uint32_t>(x);
  const auto exponent = static_cast<int32_t>(bits >> 23 & 0xff) - 112;
  const uint32_t sign = bits >> 16 & 0x8000;
  if (exponent <= 0)
    return static_cast<uint16_t>(sign);
  return static_cast<uint16_t>(sign | static_cast<uint32_t>(exponent) << 10 |
                               (bits >> 13 & 0x3ff));
}

/// `rows` rows of the weight, as in a file.
std::vector<std::byte> randomRows(Random &random, const WeightDesc &desc,
                                  uint64_t rows) {
  const WeightFormatInfo &info = weightFormatInfo(desc.format);
  const auto elements = static_cast<uint64_t>(desc.shape.back());
  const uint64_t rowBytes = weightRowBytes(desc.format, elements);
  std::vector<std::byte> bytes(rows * rowBytes + sizeof(uint64_t));
  auto *at = reinterpret_cast<uint8_t *>(bytes.data());
  const uint64_t columns = desc.shape.size() == 1 ? 1 : elements;
  if (desc.format == WeightFormat::i32) {
    // Numbers of experts: those of a row are different.
    const uint32_t limit = std::max(desc.valueLimit, 1u);
    for (uint64_t row = 0; row < rows; ++row) {
      const uint64_t first = random.next() % limit;
      const uint64_t stride = limit / std::max<uint64_t>(elements, 1);
      for (uint64_t i = 0; i < elements; ++i) {
        const auto value = static_cast<int32_t>((first + i * stride) % limit);
        std::memcpy(at + (row * elements + i) * sizeof value, &value,
                    sizeof value);
      }
    }
  } else if (info.scaleKind == ScaleKind::none) {
    for (uint64_t i = 0; i < rows * elements; ++i) {
      const float value = floatValue(random, columns);
      const auto bits = std::bit_cast<uint32_t>(value);
      const auto half = desc.format == WeightFormat::bf16
                            ? static_cast<uint16_t>(bits >> 16)
                            : f16Bits(value);
      if (desc.format == WeightFormat::f32)
        std::memcpy(at + 4 * i, &bits, 4);
      else
        std::memcpy(at + 2 * i, &half, 2);
    }
  } else {
    for (uint64_t i = 0; i < rows * rowBytes; i += sizeof(uint64_t)) {
      const uint64_t word = random.next();
      std::memcpy(at + i, &word, sizeof word);
    }
    for (uint64_t i = 0; i < rows * rowBytes; i += info.blockBytes)
      setScales(info, at + i);
  }
  bytes.resize(rows * rowBytes);
  return bytes;
}

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
  Result<const Pattern *> get(Random &random, const WeightDesc &desc);

private:
  using Key = std::tuple<WeightFormat, WeightLayout, int64_t, uint32_t, bool>;
  Device &device;
  std::map<Key, Pattern> patterns;
};

Result<const Pattern *> Patterns::get(Random &random, const WeightDesc &desc) {
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
  const std::vector<std::byte> rows = randomRows(random, desc, pattern.rows);
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
  Random random(seed);
  DecodeTables tables;
  for (const BooksDesc &desc : plan.books) {
    DecodeTable table{desc.format, desc.experts, {}, {}, {}};
    const uint32_t levels = weightFormatInfo(desc.format).bookLevels;
    for (uint64_t book = 0; book < 2 * uint64_t{desc.experts}; ++book) {
      std::vector<float> values(levels);
      for (float &value : values) // bfloat16
        value = std::bit_cast<float>(
            std::bit_cast<uint32_t>(random.signedUnit()) & 0xffff0000);
      std::ranges::sort(values);
      table.books.insert(table.books.end(), values.begin(), values.end());
    }
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
  Random random(seed);
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
