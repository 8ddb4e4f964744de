// ImportanceMatrix.cpp - keys and names are those of llama.cpp's
// tools/imatrix (the GGUF form).
#include "runtime/ImportanceMatrix.h"

#include "runtime/GgufWriter.h"

#include <cassert>

namespace ds4 {

void ImportanceMatrix::add(const Observation &observation,
                           std::span<const float> rows,
                           std::span<const int32_t> chosen) {
  const size_t number = rows.size() / observation.rowElements;
  if (number == 0)
    return;
  const size_t width = observation.width;
  Entry &entry = all[observation.weight];
  if (entry.squares.empty()) {
    entry.width = observation.width;
    entry.experts = observation.experts;
    entry.squares.resize(observation.experts * width);
    entry.counts.resize(observation.experts);
  }
  assert(entry.width == width && entry.experts == observation.experts &&
         "phases disagree on a weight");
  auto addVector = [&](std::span<const float> vector, size_t expert) {
    assert(expert < entry.experts && "an expert that the weight does not have");
    double *sums = entry.squares.data() + expert * width;
    for (size_t i = 0; i < width; ++i)
      sums[i] += static_cast<double>(vector[i]) * vector[i];
    ++entry.counts[expert];
  };
  for (size_t row = 0; row < number; ++row) {
    const std::span<const float> values =
        rows.subspan(row * observation.rowElements, observation.rowElements);
    if (chosen.empty()) {
      for (size_t at = 0; at < values.size(); at += width)
        addVector(values.subspan(at, width), 0);
      continue;
    }
    const bool isShared = values.size() == width;
    for (size_t i = 0; i < observation.used; ++i)
      addVector(isShared ? values : values.subspan(i * width, width),
                static_cast<size_t>(chosen[row * observation.used + i]));
  }
}

Status ImportanceMatrix::write(const std::filesystem::path &path,
                               const Origin &origin) const {
  if (all.empty())
    return invalidInput("no inputs of linears were seen: compile the bundle "
                        "with ds4c --imatrix=true");
  GgufWriter writer;
  writer.set("general.type", GgufValue::of("imatrix"));
  writer.set("imatrix.datasets",
             GgufValue::of(std::vector<std::string>{origin.dataset}));
  writer.set("imatrix.chunk_count", GgufValue::of(origin.chunks));
  writer.set("imatrix.chunk_size", GgufValue::of(origin.chunkTokens));
  auto add = [&](const std::string &name, uint64_t width, uint64_t experts,
                 const auto &values) {
    std::vector<float> floats(values.begin(), values.end());
    const auto bytes = std::as_bytes(std::span(floats));
    return writer.addTensor(name, {width, experts}, WeightFormat::f32,
                            std::vector(bytes.begin(), bytes.end()));
  };
  for (const auto &[name, entry] : all) {
    DS4_TRY(add(name + ".in_sum2", entry.width, entry.experts, entry.squares));
    DS4_TRY(add(name + ".counts", 1, entry.experts, entry.counts));
  }
  return writer.write(path);
}

} // namespace ds4
