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

TEST(ImportanceMatrix, WritesTheFormOfLlamaCpp) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("imatrix_test_" + std::to_string(::getpid()) + ".gguf");
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
  auto values = [&](const char *name, std::vector<uint64_t> dims) {
    const GgufTensor *tensor = file->findTensor(name);
    EXPECT_NE(tensor, nullptr) << name;
    EXPECT_EQ(tensor->dims, dims);
    EXPECT_EQ(tensor->format(), WeightFormat::f32);
    std::vector<float> result(tensor->elements());
    std::ifstream stream(path, std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(tensor->fileOffset));
    stream.read(reinterpret_cast<char *>(result.data()),
                static_cast<std::streamsize>(result.size() * sizeof(float)));
    return result;
  };
  EXPECT_EQ(values("blk.0.e.in_sum2", {2, 3}),
            (std::vector<float>{0, 0, 1, 4, 0, 0}));
  EXPECT_EQ(values("blk.0.e.counts", {1, 3}), (std::vector<float>{0, 1, 0}));
  std::filesystem::remove(path);
}

TEST(ImportanceMatrix, RefusesToWriteNothing) {
  Status written = ImportanceMatrix().write("/nonexistent/x", {});
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().text.find("ds4c --imatrix=true"),
            std::string::npos);
}

} // namespace ds4
