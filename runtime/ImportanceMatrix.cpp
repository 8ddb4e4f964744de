// ImportanceMatrix.cpp - keys and names are those of llama.cpp's
// tools/imatrix (the GGUF form).
#include "runtime/ImportanceMatrix.h"

#include "runtime/GgufWriter.h"

#include <algorithm>
#include <cassert>
#include <functional>

namespace ds4 {

namespace {

/// Vectors of some tokens, in their order.
using Vectors = std::vector<const float *>;

/// A block's columns of vectors in tiles: [columns / kTile, vectors, kTile].
/// The last tile may hold what is no column.
class Tiles {
public:
  static constexpr size_t kTile = 4;

  Tiles(size_t vectors, size_t columns)
      : vectors(vectors), values(vectors * (columns + kTile)) {}

  void fill(const Vectors &from, size_t first, size_t columns) {
    for (size_t t = 0; t < vectors; ++t)
      for (size_t i = 0; i < columns; ++i)
        values[(i / kTile * vectors + t) * kTile + i % kTile] =
            from[t][first + i];
  }
  /// The tile that begins at column i, a multiple of kTile.
  const double *at(size_t i) const { return values.data() + i * vectors; }

private:
  size_t vectors;
  std::vector<double> values;
};

} // namespace

/// Adds x_i x_j of each vector to `sums`, columns in blocks. A sum takes
/// vectors in their order, however many come at a time. Only tiles on and above
/// the diagonal of a block are filled.
static void addProducts(const Vectors &x, size_t width, size_t block,
                        double *sums) {
  constexpr size_t kTile = Tiles::kTile;
  Tiles tiles(x.size(), std::min(block, width));
  for (size_t first = 0; first < width; first += block) {
    const size_t size = std::min(block, width - first);
    tiles.fill(x, first, size);
    for (size_t i = 0; i < size; i += kTile)
      for (size_t j = i; j < size; j += kTile) {
        // A tile's sums stay in registers.
        double tile[kTile][kTile] = {};
        const size_t rows = std::min(kTile, size - i);
        const size_t cols = std::min(kTile, size - j);
        double *at = sums + (first + i) * block + j;
        for (size_t a = 0; a < rows; ++a)
          std::copy_n(at + a * block, cols, tile[a]);
        const double *l = tiles.at(i), *r = tiles.at(j);
        for (size_t t = 0; t < x.size(); ++t, l += kTile, r += kTile)
          for (size_t a = 0; a < kTile; ++a)
            for (size_t b = 0; b < kTile; ++b)
              tile[a][b] += l[a] * r[b];
        for (size_t a = 0; a < rows; ++a)
          std::copy_n(tile[a], cols, at + a * block);
      }
  }
}

static void addSquares(const Vectors &vectors, std::span<double> sums) {
  for (const float *vector : vectors)
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] += static_cast<double>(vector[i]) * vector[i];
}

namespace {

/// Rows as an observation gives them, as vectors of experts.
class Rows {
public:
  Rows(const Observation &observation, std::span<const float> values,
       std::span<const int32_t> chosen)
      : observation(observation), values(values), chosen(chosen),
        each(chosen.empty() ? observation.rowElements / observation.width
                            : observation.used) {}

  size_t size() const { return values.size() / observation.rowElements; }
  /// Vectors of a row, an expert's each time it was chosen.
  size_t vectors() const { return each; }
  size_t expert(size_t row, size_t i) const {
    return chosen.empty() ? 0 : static_cast<size_t>(chosen[row * each + i]);
  }
  bool isShared() const {
    return !chosen.empty() && observation.rowElements == observation.width;
  }
  const float *vector(size_t row, size_t i) const {
    return values.data() + row * observation.rowElements +
           (isShared() ? 0 : i * observation.width);
  }

private:
  const Observation &observation;
  std::span<const float> values;
  std::span<const int32_t> chosen;
  size_t each;
};

} // namespace

ImportanceMatrix::Entry &
ImportanceMatrix::entryOf(const Observation &observation) {
  const size_t width = observation.width;
  Entry &entry = all[observation.weight];
  if (entry.squares.empty()) {
    entry.width = observation.width;
    entry.experts = observation.experts;
    entry.squares.resize(observation.experts * width);
    entry.counts.resize(observation.experts);
    entry.block = std::min(block, observation.width);
    entry.moments.resize(observation.experts * width * entry.block);
  }
  assert(entry.width == width && entry.experts == observation.experts &&
         "phases disagree on a weight");
  return entry;
}

void ImportanceMatrix::add(const Observation &observation,
                           std::span<const float> rows,
                           std::span<const int32_t> chosen) {
  const Rows given(observation, rows, chosen);
  if (given.size() == 0)
    return;
  Entry &entry = entryOf(observation);
  std::vector<Vectors> x(entry.experts);
  for (size_t row = 0; row < given.size(); ++row)
    for (size_t i = 0; i < given.vectors(); ++i) {
      const size_t expert = given.expert(row, i);
      assert(expert < entry.experts &&
             "an expert that the weight does not have");
      x[expert].push_back(given.vector(row, i));
    }
  const size_t width = entry.width, each = width * entry.block;
  for (size_t expert = 0; expert < entry.experts; ++expert) {
    addSquares(x[expert],
               std::span(entry.squares).subspan(expert * width, width));
    entry.counts[expert] += x[expert].size();
    if (entry.block && !x[expert].empty())
      addProducts(x[expert], width, entry.block,
                  entry.moments.data() + expert * each);
  }
}

/// Moments with both halves, as f32.
static std::vector<float> mirrored(const ImportanceMatrix::Entry &entry) {
  const size_t block = entry.block, rows = entry.moments.size() / block;
  std::vector<float> result(entry.moments.begin(), entry.moments.end());
  for (size_t i = 0; i < rows; ++i) {
    const size_t column = i % entry.width, inBlock = column % block;
    for (size_t j = 0; j < inBlock; ++j)
      result[i * block + j] = result[(i - inBlock + j) * block + inBlock];
  }
  return result;
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
  const auto add = [&](const std::string &name, std::vector<uint64_t> dims,
                       std::function<std::vector<float>()> values) {
    return writer.addTensor(
        name, std::move(dims), WeightFormat::f32,
        [values = std::move(values)](const GgufWriter::Sink &sink) {
          return sink(std::as_bytes(std::span<const float>(values())));
        });
  };
  const auto floats = [](const auto &values) {
    return
        [&values] { return std::vector<float>(values.begin(), values.end()); };
  };
  for (const auto &[name, entry] : all) {
    DS4_TRY(add(name + ".in_sum2", {entry.width, entry.experts},
                floats(entry.squares)));
    DS4_TRY(add(name + ".counts", {1, entry.experts}, floats(entry.counts)));
    if (entry.block)
      DS4_TRY(add(name + ".in_moment",
                  {entry.block, entry.width, entry.experts},
                  [&entry = entry] { return mirrored(entry); }));
  }
  return writer.write(path);
}

} // namespace ds4
