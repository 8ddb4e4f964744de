// Imatrix.cpp - both forms of importance matrices.
#include "quant/Imatrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <fstream>

namespace ds4::quant {

static constexpr const char *kSum2 = ".in_sum2", *kCounts = ".counts",
                            *kMoment = ".in_moment";

std::vector<float> InputStatistics::importance(uint64_t matrix) const {
  std::vector<float> mean;
  if (const float count = counts[matrix]; count > 0)
    for (uint64_t i = 0; i < columns; ++i)
      mean.push_back(sum2[matrix * columns + i] / count);
  return mean;
}

Result<Imatrix> Imatrix::open(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  char magic[4] = {};
  if (!file.read(magic, 4))
    return ioError(
        fmt::format("cannot read an importance matrix from {}", path.string()));
  Imatrix imatrix;
  if (std::memcmp(magic, "GGUF", 4) == 0) {
    DS4_ASSIGN(imatrix.gguf, Gguf::open(path));
  } else {
    DS4_TRY(imatrix.readLegacy(path));
  }
  return imatrix;
}

/// i32 entries; each: i32 length, name, i32 calls, i32 values, f32 values.
Status Imatrix::readLegacy(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  const uint64_t fileBytes = std::filesystem::file_size(path);
  const auto failed = [&](std::string_view what) {
    return invalidInput(fmt::format(
        "{} is no importance matrix (GGUF, or llama.cpp's older form): {}",
        path.string(), what));
  };
  const auto number = [&](int32_t &value) {
    return static_cast<bool>(
        file.read(reinterpret_cast<char *>(&value), sizeof value));
  };
  int32_t entries = 0;
  if (!number(entries) || entries < 1)
    return failed("it names no tensor");
  for (int32_t e = 0; e < entries; ++e) {
    int32_t length = 0, calls = 0, values = 0;
    if (!number(length) || length < 1 || length > 1024)
      return failed(fmt::format("entry {} has no name", e));
    std::string name(static_cast<size_t>(length), '\0');
    if (!file.read(name.data(), length) || !number(calls) || !number(values))
      return failed(fmt::format("it ends inside entry {}", e));
    if (calls < 0 || values < 1 ||
        static_cast<uint64_t>(values) > fileBytes / sizeof(float))
      return failed(
          fmt::format("entry {} has {} values of {} calls", e, values, calls));
    Entry entry{static_cast<uint32_t>(calls),
                std::vector<float>(static_cast<size_t>(values))};
    if (!file.read(reinterpret_cast<char *>(entry.values.data()),
                   static_cast<std::streamsize>(4 * entry.values.size())))
      return failed(fmt::format("it ends inside entry {}", e));
    legacy[name] = std::move(entry);
  }
  return Status::ok();
}

Result<std::vector<float>> Imatrix::floats(const GgufTensor &tensor,
                                           uint64_t first,
                                           uint64_t count) const {
  if (tensor.format() != WeightFormat::f32)
    return invalidInput(fmt::format("{}: tensor {} is not f32", gguf->path(),
                                    ggufQuoted(tensor.name)));
  std::vector<float> values(count);
  std::ifstream file(gguf->path(), std::ios::binary);
  file.seekg(static_cast<std::streamoff>(tensor.fileOffset + 4 * first));
  if (!file.read(reinterpret_cast<char *>(values.data()),
                 static_cast<std::streamsize>(4 * count)))
    return ioError(fmt::format("{}: cannot read tensor {}", gguf->path(),
                               ggufQuoted(tensor.name)));
  for (const float value : values)
    if (!std::isfinite(value))
      return invalidInput(fmt::format("{}: tensor {} has a value that is not "
                                      "finite",
                                      gguf->path(), ggufQuoted(tensor.name)));
  return values;
}

Result<std::optional<InputStatistics>>
Imatrix::statistics(const std::string &name, uint64_t columns,
                    uint64_t matrices) const {
  std::optional<InputStatistics> result;
  InputStatistics stats;
  stats.columns = columns;
  stats.matrices = matrices;
  const auto mismatch = [&](uint64_t found) {
    return invalidInput(
        fmt::format("the importance matrix has {} values for tensor {}, which "
                    "has {} columns and {} matrices",
                    found, ggufQuoted(name), columns, matrices));
  };
  if (!gguf) {
    const auto it = legacy.find(name);
    if (it == legacy.end())
      return result;
    if (it->second.values.size() != columns * matrices)
      return mismatch(it->second.values.size());
    stats.counts.assign(
        matrices, static_cast<float>(std::max<uint32_t>(it->second.calls, 1)));
    stats.sum2 = it->second.values;
    for (const float value : stats.sum2)
      if (!std::isfinite(value))
        return invalidInput(fmt::format("the importance of tensor {} has a "
                                        "value that is not finite",
                                        ggufQuoted(name)));
    result = std::move(stats);
    return result;
  }

  const GgufTensor *sum2 = gguf->findTensor(name + kSum2);
  const GgufTensor *counts = gguf->findTensor(name + kCounts);
  if (!sum2 || !counts)
    return result;
  if (sum2->elements() != columns * matrices)
    return mismatch(sum2->elements());
  DS4_ASSIGN(stats.sum2, floats(*sum2, 0, sum2->elements()));
  DS4_ASSIGN(stats.counts, floats(*counts, 0, counts->elements()));
  // Some writers give one count for all.
  if (stats.counts.size() == 1)
    stats.counts.resize(matrices, stats.counts[0]);
  if (stats.counts.size() != matrices)
    return mismatch(stats.counts.size());
  if (const GgufTensor *moment = gguf->findTensor(name + kMoment)) {
    stats.block = moment->dims[0];
    if (moment->elements() != stats.block * columns * matrices)
      return mismatch(moment->elements());
  }
  result = std::move(stats);
  return result;
}

Result<std::vector<float>> Imatrix::moments(const std::string &name,
                                            const InputStatistics &statistics,
                                            uint64_t matrix) const {
  const uint64_t size = statistics.columns * statistics.block;
  return floats(*gguf->findTensor(name + kMoment), matrix * size, size);
}

} // namespace ds4::quant
