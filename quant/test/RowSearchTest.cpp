// What searching promises: smaller errors of outputs than the reference's
// codes, legal blocks, and the reference's result where nothing can be gained.
#include "quant/RowSearch.h"

#include "ops/Reference.h"
#include "ops/test/RandomFloats.h"
#include "quant/MixEncoder.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace ds4;
using namespace ds4::quant;

namespace {

constexpr uint64_t kColumns = 128;
constexpr unsigned kInputs = 500;

/// [kColumns, block] sums of products of 500 inputs that lie near a space of
/// few dimensions.
std::vector<float> correlatedInputs(uint64_t block) {
  test::Random random(5);
  const std::vector<float> basis = random.floats(8 * kColumns);
  std::vector<float> moments(kColumns * block);
  for (unsigned n = 0; n < kInputs; ++n) {
    std::vector<float> x = random.floats(kColumns, 0.3f);
    const std::vector<float> mix = random.floats(8);
    for (uint64_t i = 0; i < kColumns; ++i)
      for (unsigned k = 0; k < 8; ++k)
        x[i] += mix[k] * basis[k * kColumns + i];
    for (uint64_t i = 0; i < kColumns; ++i) {
      const uint64_t first = i / block * block;
      for (uint64_t j = first; j < std::min(first + block, kColumns); ++j)
        moments[i * block + j - first] += x[i] * x[j];
    }
  }
  return moments;
}

InputMoments momentsOf(uint64_t block) {
  const std::vector<float> sums = correlatedInputs(block);
  return InputMoments(kColumns, block, sums, kInputs);
}

/// The diagonal.
std::vector<float> importanceOf(const std::vector<float> &moments) {
  std::vector<float> importance;
  for (uint64_t i = 0; i < kColumns; ++i)
    importance.push_back(moments[i * kColumns + i] / kInputs);
  return importance;
}

/// (w - q)^T M (w - q) with the moments of one full block.
double outputError(const std::vector<float> &moments, Floats row,
                   const std::vector<float> &decoded) {
  double error = 0;
  for (uint64_t i = 0; i < kColumns; ++i)
    for (uint64_t j = 0; j < kColumns; ++j)
      error += (double(row[i]) - decoded[i]) * moments[i * kColumns + j] *
               (double(row[j]) - decoded[j]);
  return error;
}

class RowSearchTest : public testing::TestWithParam<WeightFormat> {
protected:
  std::vector<float> books(Floats matrix) const {
    return weightFormatInfo(GetParam()).bookLevels
               ? fitBooks(GetParam(), matrix, kColumns, {})
               : std::vector<float>();
  }
};

TEST_P(RowSearchTest, LowersTheErrorOfOutputs) {
  const std::vector<float> full = correlatedInputs(kColumns);
  const std::vector<float> importance = importanceOf(full);
  const InputMoments moments = momentsOf(kColumns), blocks = momentsOf(48);
  test::Random random(6);
  const std::vector<float> matrix = random.floats(20 * kColumns);
  const std::vector<float> book = books(matrix);
  double reference = 0, searched = 0, inBlocks = 0;
  for (uint64_t r = 0; r < 20; ++r) {
    const Floats row = Floats(matrix).subspan(r * kColumns, kColumns);
    std::vector<uint8_t> bytes(weightRowBytes(GetParam(), kColumns));
    const auto error = [&] {
      return outputError(
          full, row, ref::weightRow({GetParam(), bytes, kColumns, book, 1}, 0));
    };
    if (book.empty())
      encodeRow(GetParam(), row, importance, bytes.data());
    else
      ASSERT_TRUE(
          encodeMixRow(GetParam(), book, row, importance, bytes.data()));
    reference += error();
    searchRow(GetParam(), book, row, moments, bytes.data());
    searched += error();
    searchRow(GetParam(), book, row, blocks, bytes.data());
    inBlocks += error();
  }
  EXPECT_LT(searched, 0.5 * reference);
  EXPECT_LT(inBlocks, 0.9 * reference);
}

TEST_P(RowSearchTest, KeepsWhatIsExact) {
  const InputMoments moments = momentsOf(kColumns);
  const unsigned levels = weightFormatInfo(GetParam()).bookLevels;
  std::vector<float> book;
  for (unsigned b = 0; b < 2 && levels; ++b)
    for (const float level :
         {-2.0f, -1.5f, -1.0f, -0.5f, 0.0f, 0.5f, 1.0f, 2.0f})
      // Four levels are -1, 0, 1, 2.
      if (levels == 8 || level == 2 || (level >= -1 && level == int(level)))
        book.push_back(level);
  std::vector<float> row(kColumns);
  for (uint64_t i = 0; i < kColumns; ++i)
    row[i] = static_cast<float>(i % 3) - 1;
  for (uint64_t i = 0; i < kColumns; i += 16)
    row[i] = 2;
  std::vector<uint8_t> bytes(weightRowBytes(GetParam(), kColumns));
  searchRow(GetParam(), book, row, moments, bytes.data());
  EXPECT_EQ(ref::weightRow({GetParam(), bytes, kColumns, book, 1}, 0), row);
}

INSTANTIATE_TEST_SUITE_P(
    Formats, RowSearchTest,
    testing::Values(WeightFormat::q4_0_rocmfp4_fast, WeightFormat::q3_0_rocmfpx,
                    WeightFormat::q3_1_rocmfp3_mix,
                    WeightFormat::q2_1_rocmfp2_mix, WeightFormat::q2_0_rocmfp2),
    [](const auto &info) {
      return std::string(weightFormatInfo(info.param).name);
    });

} // namespace
