// Statistics of an evaluation, against values worked out by hand. Whole runs
// are in tools/test/ds4run_eval.test.
#include "runtime/Evaluation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ds4 {
namespace {

/// Logits of the distribution `p`, shifted by what softmax takes out.
std::vector<float> logitsOf(std::initializer_list<double> p) {
  std::vector<float> logits;
  for (double value : p)
    logits.push_back(static_cast<float>(std::log(value) + 3));
  return logits;
}

} // namespace

TEST(Perplexity, IsExpOfTheMeanLoss) {
  Perplexity it;
  const auto row = logitsOf({0.5, 0.25, 0.125, 0.125});
  it.add(lossOf(row, 0));
  EXPECT_NEAR(it.value(), 2, 1e-6);
  EXPECT_EQ(it.error(), 0);
  it.add(lossOf(row, 3));
  EXPECT_EQ(it.tokens(), 2u);
  EXPECT_NEAR(it.value(), 4, 1e-6); // sqrt(2 * 8)
  // Losses ln 2 and 3 ln 2: mean 2 ln 2, variance (ln 2)^2, over n - 1 = 1.
  EXPECT_NEAR(it.error(), 4 * std::log(2), 1e-5);
}

TEST(LogitComparison, KlIsOfTheReferenceAgainstOurs) {
  LogitComparison it;
  it.add(logitsOf({0.5, 0.5}), 0, logitsOf({0.25, 0.75}));
  const double kl = 0.5 * std::log(2) + 0.5 * std::log(0.5 / 0.75);
  EXPECT_NEAR(it.meanKl(), kl, 1e-6);
  EXPECT_EQ(it.rows(), 1u);
}

TEST(LogitComparison, Top1TakesTheLowestOfEquals) {
  LogitComparison it;
  const std::vector<float> a{1, 1, 0}, b{2, 1, 0}, c{1, 2, 0};
  it.add(a, 0, b);
  EXPECT_EQ(it.top1(), 1u);
  it.add(a, 0, c);
  EXPECT_EQ(it.top1(), 1u);
  it.add(a, 1, c); // a saved row says which of its equals was the best
  EXPECT_EQ(it.top1(), 2u);
}

TEST(LogitComparison, Quantiles) {
  LogitComparison it;
  EXPECT_EQ(it.klQuantile(0.99), 0);
  const std::vector<float> flat{0, 0};
  std::vector<double> expected;
  for (int i = 0; i < 100; ++i) { // KL grows with i
    const std::vector<float> row{0, 0.01f * static_cast<float>(i)};
    it.add(flat, 0, row);
    const double x = row[1];
    expected.push_back(std::log((1 + std::exp(x)) / 2) - x / 2);
  }
  EXPECT_NEAR(it.klQuantile(0.99), expected[98], 1e-7);
  EXPECT_NEAR(it.klQuantile(1), expected[99], 1e-7);
  EXPECT_NEAR(it.klQuantile(0.5), expected[49], 1e-7);
  EXPECT_NEAR(it.klQuantile(0), expected[0], 1e-7);
}

TEST(ActivationComparison, TableHasALineALayer) {
  ActivationComparison it;
  EXPECT_EQ(it.table(), "");
  const std::vector<float> theirs{3, 4}, ours{3, 3};
  it.add("layer0.attn_in", theirs, theirs);
  it.add("layer0.streams", theirs, ours); // 1 / 5
  it.add("layer1.attn_in", theirs, ours);
  it.add("layer1.attn_in", theirs, theirs); // 1 / sqrt(50)
  EXPECT_EQ(it.table(), "layer        attn_in   streams\n"
                        "layer0      0.00e+00  2.00e-01\n"
                        "layer1      1.41e-01          \n");
}

} // namespace ds4
