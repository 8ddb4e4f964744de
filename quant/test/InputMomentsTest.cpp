// Moments for a search: the mix with the layer's, the damping, and the factor
// of their inverse.
#include "quant/InputMoments.h"

#include "ops/test/RandomFloats.h"

#include <gtest/gtest.h>

using namespace ds4;
using namespace ds4::quant;

TEST(InputMoments, AreMeansWithALittleOnTheDiagonal) {
  const std::vector<float> sums = {80, 20, 20, 120};
  const InputMoments moments(2, 2, sums, 20);
  // 0.01 + 0.5 * 2 / 20 of the mean diagonal, (4 + 6) / 2.
  EXPECT_FLOAT_EQ(moments.row(0)[0], 4.3f);
  EXPECT_FLOAT_EQ(moments.row(0)[1], 1);
  EXPECT_FLOAT_EQ(moments.row(1)[0], 1);
  EXPECT_FLOAT_EQ(moments.row(1)[1], 6.3f);
}

TEST(InputMoments, OfFewInputsLeanOnTheLayer) {
  const std::vector<float> sums = {80, 20, 20, 120}, layer = {2, 1, 1, 2},
                           nothing(4);
  // 8 inputs' worth of the layer's means: (80 + 16) / 20, (120 + 16) / 20.
  const InputMoments mixed(2, 2, sums, 12, layer);
  EXPECT_FLOAT_EQ(mixed.row(0)[0], 4.8f + 0.06f * 5.8f);
  EXPECT_FLOAT_EQ(mixed.row(1)[1], 6.8f + 0.06f * 5.8f);
  EXPECT_FLOAT_EQ(mixed.row(0)[1], 1.4f);
  const InputMoments unseen(2, 2, nothing, 0, layer);
  // 0.01 + 0.5 * 2 / 8.
  EXPECT_FLOAT_EQ(unseen.row(0)[0], 2.27f);
}

TEST(InputMoments, FactorIsThatOfTheInverse) {
  constexpr uint64_t kColumns = 10, kBlock = 4;
  test::Random random(3);
  std::vector<float> sums(kColumns * kBlock);
  for (unsigned n = 0; n < 20; ++n) {
    const std::vector<float> x = random.floats(kColumns);
    for (uint64_t i = 0; i < kColumns; ++i)
      for (uint64_t j = i / kBlock * kBlock;
           j < std::min(i / kBlock * kBlock + kBlock, kColumns); ++j)
        sums[i * kBlock + j % kBlock] += x[i] * x[j];
  }
  const InputMoments moments(kColumns, kBlock, sums, 20);
  for (uint64_t first = 0; first < kColumns; first += kBlock) {
    const uint64_t n = std::min(kBlock, kColumns - first);
    for (uint64_t i = 0; i < n; ++i) {
      for (uint64_t j = 0; j < i; ++j)
        EXPECT_EQ(moments.feedback(first + i)[j], 0);
      // Row i of U^T U M is that of the unit matrix.
      for (uint64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (uint64_t k = 0; k < n; ++k)
          for (uint64_t l = 0; l < n; ++l)
            sum += static_cast<double>(moments.feedback(first + k)[i]) *
                   moments.feedback(first + k)[l] * moments.row(first + l)[j];
        EXPECT_NEAR(sum, i == j, 1e-4) << first << " " << i << " " << j;
      }
    }
  }
}

TEST(InputMoments, OfZerosHaveAFactor) {
  const std::vector<float> nothing(8);
  const InputMoments moments(4, 2, nothing, 3);
  for (uint64_t i = 0; i < 4; ++i)
    EXPECT_GT(moments.feedback(i)[i % 2], 0);
}
