// The encoder of learned-level formats against the published reference, bit
// for bit, and what the fit of books promises.
#include "quant/MixEncoder.h"

#include "ops/Reference.h"
#include "ops/test/RandomFloats.h"
#include "ops/test/VectorFiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

using namespace ds4;
using namespace ds4::quant;

namespace {

constexpr test::VectorFolder kVectors{"quant/test/data/"};

constexpr size_t kColumns = 256, kRows = 40, kExperts = 4;

void compare(WeightFormat format, const std::string &name) {
  const std::vector<float> input = kVectors.floats("quant.input.bin");
  const std::vector<float> importance = kVectors.floats("mix.imatrix.bin");
  const std::vector<float> books = kVectors.bfloats(name + ".codebooks.bin");
  const std::vector<uint8_t> want = kVectors.bytes(name + ".quant.bin");
  const std::vector<uint8_t> accepted = kVectors.bytes(name + ".quant.ok.bin");
  const size_t rowBytes = weightRowBytes(format, kColumns);
  ASSERT_EQ(want.size(), kExperts * 2 * kRows * rowBytes);
  for (size_t at = 0; at < kExperts * 2 * kRows; ++at) {
    SCOPED_TRACE(at);
    const size_t expert = at / (2 * kRows), row = at % kRows;
    std::vector<uint8_t> got(rowBytes);
    const bool weighted = at / kRows % 2;
    const bool ok =
        encodeMixRow(format,
                     Floats(books).subspan(expert * books.size() / kExperts,
                                           books.size() / kExperts),
                     Floats(input).subspan(row * kColumns, kColumns),
                     weighted ? Floats(importance) : Floats(), got.data());
    ASSERT_EQ(ok, accepted[at] != 0);
    ASSERT_EQ(0,
              std::memcmp(got.data(), want.data() + at * rowBytes, rowBytes));
  }
}

TEST(MixEncoder, Type105MatchesTheReference) {
  compare(WeightFormat::q3_1_rocmfp3_mix, "mix105");
}

TEST(MixEncoder, Type106MatchesTheReference) {
  compare(WeightFormat::q2_1_rocmfp2_mix, "mix106");
}

/// Weighted squared error of a matrix in units of its squares.
double relativeError(WeightFormat format, Floats books, Floats matrix,
                     size_t columns, Floats importance) {
  double error = 0, power = 0;
  for (size_t at = 0; at < matrix.size(); at += columns) {
    const Floats row = matrix.subspan(at, columns);
    std::vector<uint8_t> bytes(weightRowBytes(format, columns));
    EXPECT_TRUE(encodeMixRow(format, books, row, importance, bytes.data()));
    const std::vector<float> decoded =
        ref::weightRow({format, bytes, columns, books, 1}, 0);
    for (size_t i = 0; i < columns; ++i) {
      const double w = importance.empty() ? 1 : importance[i];
      error += w * std::pow(double(row[i]) - decoded[i], 2);
      power += w * double(row[i]) * row[i];
    }
  }
  return error / power;
}

TEST(FitBooks, BeatsBooksOfFixedLevels) {
  test::Random random(3);
  std::vector<float> matrix = random.floats(64 * 256);
  for (float &x : matrix)
    x = x * x * x;
  for (const WeightFormat format :
       {WeightFormat::q3_1_rocmfp3_mix, WeightFormat::q2_1_rocmfp2_mix}) {
    const bool three = format == WeightFormat::q3_1_rocmfp3_mix;
    const std::vector<float> fixed =
        three ? std::vector<float>{-4, -2, -1, 0, 1, 2, 4, 5,
                                   -4, -2, -1, 0, 1, 2, 4, 5}
              : std::vector<float>{-1, 0, 1, 2, -2, -1, 0, 1};
    const std::vector<float> books = fitBooks(format, matrix, 256, {});
    for (size_t b = 0; b < 2; ++b)
      for (size_t k = 1; k < books.size() / 2; ++k)
        EXPECT_LT(books[b * books.size() / 2 + k - 1],
                  books[b * books.size() / 2 + k]);
    EXPECT_LT(relativeError(format, books, matrix, 256, {}),
              0.95 * relativeError(format, fixed, matrix, 256, {}));
  }
}

TEST(FitBooks, FollowsTheImportance) {
  test::Random random(4);
  std::vector<float> matrix = random.floats(64 * 256);
  std::vector<float> importance(256, 1e-3f);
  for (size_t i = 0; i < 256; ++i)
    if (i / 16 % 2) {
      importance[i] = 1;
      for (size_t row = 0; row < 64; ++row)
        matrix[row * 256 + i] = std::pow(matrix[row * 256 + i], 3.0f);
    }
  const WeightFormat format = WeightFormat::q2_1_rocmfp2_mix;
  EXPECT_LT(relativeError(format, fitBooks(format, matrix, 256, importance),
                          matrix, 256, importance),
            relativeError(format, fitBooks(format, matrix, 256, {}), matrix,
                          256, importance));
}

TEST(FitBooks, ZerosGiveLegalBooks) {
  const std::vector<float> matrix(256, 0.0f);
  for (const WeightFormat format :
       {WeightFormat::q3_1_rocmfp3_mix, WeightFormat::q2_1_rocmfp2_mix}) {
    const std::vector<float> books = fitBooks(format, matrix, 256, {});
    for (size_t k = 1; k < books.size() / 2; ++k)
      EXPECT_LT(books[k - 1], books[k]);
  }
}

} // namespace
