// Importance matrices from rows that are made here: whose sums they go to, and
// the file. Whole models are in test/e2e/ImatrixTest.cpp.
#include "runtime/ImportanceMatrix.h"

#include "runtime/Gguf.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <unistd.h>

namespace ds4 {
namespace {

Observation observationOf(std::string weight, uint32_t width,
                          uint64_t rowElements, uint32_t used = 0,
                          uint32_t experts = 1) {
  Observation it;
  it.weight = std::move(weight);
  it.width = width;
  it.rowElements = rowElements;
  it.used = used;
  it.experts = experts;
  return it;
}

using Squares = std::vector<double>;
using Counts = std::vector<uint64_t>;

} // namespace

TEST(ImportanceMatrix, SumsSquaresOfColumns) {
  ImportanceMatrix matrix;
  const Observation it = observationOf("w", 2, 2);
  matrix.add(it, std::vector<float>{1, -2, 3, 0}, {});
  matrix.add(it, std::vector<float>{0.5f, 1}, {});
  matrix.add(observationOf("unread", 2, 2), {}, {});
  ASSERT_EQ(matrix.entries().size(), 1u);
  EXPECT_EQ(matrix.entries().at("w").squares, (Squares{10.25, 5}));
  EXPECT_EQ(matrix.entries().at("w").counts, Counts{3});
}

TEST(ImportanceMatrix, SplitsRowsOfGroups) {
  ImportanceMatrix matrix;
  matrix.add(observationOf("w", 2, 4), std::vector<float>{1, 2, 3, 4}, {});
  EXPECT_EQ(matrix.entries().at("w").squares, (Squares{10, 20}));
  EXPECT_EQ(matrix.entries().at("w").counts, Counts{2});
}

TEST(ImportanceMatrix, GivesARowToEachOfItsExperts) {
  ImportanceMatrix matrix;
  matrix.add(observationOf("w", 2, 2, 2, 4), std::vector<float>{1, 2, 3, 4},
             std::vector<int32_t>{0, 3, 3, 1});
  EXPECT_EQ(matrix.entries().at("w").squares,
            (Squares{1, 4, 9, 16, 0, 0, 10, 20}));
  EXPECT_EQ(matrix.entries().at("w").counts, (Counts{1, 1, 0, 2}));
}

TEST(ImportanceMatrix, GivesEachExpertItsOwnVector) {
  ImportanceMatrix matrix;
  matrix.add(observationOf("w", 2, 4, 2, 3), std::vector<float>{1, 2, 3, 4},
             std::vector<int32_t>{2, 0});
  EXPECT_EQ(matrix.entries().at("w").squares, (Squares{9, 16, 0, 0, 1, 4}));
  EXPECT_EQ(matrix.entries().at("w").counts, (Counts{1, 0, 1}));
}

/// A file that is gone afterwards.
class ImportanceMatrixFile : public testing::Test {
protected:
  void TearDown() override { std::filesystem::remove(path); }

  /// Values of an f32 tensor that has these dimensions.
  std::vector<float> values(const char *name,
                            const std::vector<uint64_t> &dims) const {
    const Result<Gguf> file = Gguf::open(path);
    const GgufTensor *tensor = file ? file->findTensor(name) : nullptr;
    EXPECT_NE(tensor, nullptr) << name;
    if (!tensor)
      return {};
    EXPECT_EQ(tensor->dims, dims);
    EXPECT_EQ(tensor->format(), WeightFormat::f32);
    std::vector<float> result(tensor->elements());
    std::ifstream stream(path, std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(tensor->fileOffset));
    stream.read(reinterpret_cast<char *>(result.data()),
                static_cast<std::streamsize>(result.size() * sizeof(float)));
    return result;
  }

  const std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("imatrix_test_" + std::to_string(::getpid()) + ".gguf");
};

TEST_F(ImportanceMatrixFile, HasTheFormOfLlamaCpp) {
  ImportanceMatrix matrix;
  matrix.add(observationOf("blk.0.e", 2, 2, 1, 3), std::vector<float>{1, 2},
             std::vector<int32_t>{1});
  Status written = matrix.write(path, {"wiki.txt", 7, 512});
  ASSERT_TRUE(written) << written.error().text;

  Result<Gguf> file = Gguf::open(path);
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_EQ(*file->string("general.type"), "imatrix");
  Result<std::span<const std::string>> datasets =
      file->stringArray("imatrix.datasets");
  ASSERT_TRUE(datasets);
  ASSERT_EQ(datasets->size(), 1u);
  EXPECT_EQ(datasets->front(), "wiki.txt");
  EXPECT_EQ(*file->u64("imatrix.chunk_count"), 7u);
  EXPECT_EQ(*file->u64("imatrix.chunk_size"), 512u);
  EXPECT_EQ(values("blk.0.e.in_sum2", {2, 3}),
            (std::vector<float>{0, 0, 1, 4, 0, 0}));
  EXPECT_EQ(values("blk.0.e.counts", {1, 3}), (std::vector<float>{0, 1, 0}));
  EXPECT_EQ(file->findTensor("blk.0.e.in_moment"), nullptr);
}

TEST_F(ImportanceMatrixFile, HasMomentsOfBlocks) {
  ImportanceMatrix matrix(2);
  const Observation it = observationOf("w", 3, 3, 1, 2);
  matrix.add(it, std::vector<float>{1, 2, 3, 4, 5, 6},
             std::vector<int32_t>{1, 1});
  ASSERT_TRUE(matrix.write(path, {}));
  // Columns 0 and 1 share a block, column 2 is alone in a cut one.
  EXPECT_EQ(values("w.in_moment", {2, 3, 2}),
            (std::vector<float>{0, 0, 0, 0, 0, 0, 17, 22, 22, 29, 45, 0}));
  EXPECT_EQ(values("w.in_sum2", {3, 2}),
            (std::vector<float>{0, 0, 0, 17, 29, 45}));
}

TEST_F(ImportanceMatrixFile, HasMomentsOfWholeRows) {
  constexpr uint32_t kWidth = 11, kVectors = 9;
  std::vector<float> rows(kVectors * kWidth);
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] = static_cast<float>(i * 7919 % 61) - 30;
  std::vector<float> products;
  for (uint32_t i = 0; i < kWidth; ++i)
    for (uint32_t j = 0; j < kWidth; ++j) {
      float sum = 0; // of integers: exact
      for (uint32_t t = 0; t < kVectors; ++t)
        sum += rows[t * kWidth + i] * rows[t * kWidth + j];
      products.push_back(sum);
    }
  for (const size_t cut : {size_t{1}, size_t{4}, size_t{kVectors}}) {
    ImportanceMatrix matrix(1 << 20);
    const Observation it = observationOf("w", kWidth, kWidth);
    for (size_t t = 0; t < kVectors; t += cut)
      matrix.add(it,
                 std::span(rows).subspan(t * kWidth,
                                         std::min(cut, kVectors - t) * kWidth),
                 {});
    ASSERT_TRUE(matrix.write(path, {}));
    EXPECT_EQ(values("w.in_moment", {kWidth, kWidth, 1}), products) << cut;
  }
}

TEST(ImportanceMatrix, RefusesToWriteNothing) {
  Status written = ImportanceMatrix().write("/nonexistent/x", {});
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().text.find("ds4c --imatrix=true"),
            std::string::npos);
}

} // namespace ds4
