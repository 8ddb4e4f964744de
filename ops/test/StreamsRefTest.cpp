// The oracle's hyper-connections, experts' elementwise parts, routing and
// output ops against the paper's formulas in double.
#include "ops/Reference.h"
#include "ops/test/RandomFloats.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

using namespace ds4;
using namespace ds4::ref;

namespace {

constexpr uint64_t kStreams = 4, kHidden = 24, kFlat = kStreams * kHidden;
constexpr uint64_t kMixes = (2 + kStreams) * kStreams;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

class HyperConnectionRef : public testing::Test {
protected:
  HyperConnectionRef() {
    test::Random random(11);
    streams = random.floats(2 * kFlat);
    fn = random.floats(kMixes * kFlat, 0.1f);
    scale = {0.7f, 1.3f, 0.9f};
    base = random.floats(kMixes);
    fnBytes.resize(fn.size() * 4);
    std::memcpy(fnBytes.data(), fn.data(), fnBytes.size());
    fnWeight = {WeightFormat::f32, fnBytes, kFlat, {}, 0};
  }

  /// mix[j] of token t.
  double mix(uint64_t t, uint64_t j) const {
    double square = 0, dot = 0;
    for (uint64_t i = 0; i < kFlat; ++i) {
      square += double(streams[t * kFlat + i]) * streams[t * kFlat + i];
      dot += double(fn[j * kFlat + i]) * streams[t * kFlat + i];
    }
    return dot / std::sqrt(square / kFlat + params.eps);
  }

  const HcPreParams params{kStreams, kHidden, 1e-6f, 1e-6f, 3};
  std::vector<float> streams, fn, scale, base;
  std::vector<uint8_t> fnBytes;
  Weight fnWeight;
};

TEST_F(HyperConnectionRef, PreMatchesDouble) {
  std::vector<float> x(2 * kHidden), post(2 * kStreams),
      comb(2 * kStreams * kStreams);
  hcPre(params, streams, fnWeight, scale, base, x, post, comb);
  for (uint64_t t = 0; t < 2; ++t) {
    std::array<double, kStreams> pre;
    std::array<std::array<double, kStreams>, kStreams> a;
    for (uint64_t i = 0; i < kStreams; ++i) {
      pre[i] = sigmoid(mix(t, i) * scale[0] + base[i]) + 1e-6;
      EXPECT_NEAR(
          post[t * kStreams + i],
          2 * sigmoid(mix(t, kStreams + i) * scale[1] + base[kStreams + i]),
          1e-5);
      double sum = 0;
      for (uint64_t k = 0; k < kStreams; ++k) {
        const uint64_t at = 2 * kStreams + kStreams * i + k;
        a[i][k] = std::exp(mix(t, at) * scale[2] + base[at]);
        sum += a[i][k];
      }
      for (double &value : a[i])
        value = value / sum + 1e-6;
    }
    for (uint64_t n = 0; n < params.iterations; ++n) {
      if (n > 0)
        for (auto &row : a) {
          const double sum = row[0] + row[1] + row[2] + row[3] + 1e-6;
          for (double &value : row)
            value /= sum;
        }
      for (uint64_t k = 0; k < kStreams; ++k) {
        const double sum = a[0][k] + a[1][k] + a[2][k] + a[3][k] + 1e-6;
        for (auto &row : a)
          row[k] /= sum;
      }
    }
    for (uint64_t j = 0; j < kStreams; ++j)
      for (uint64_t k = 0; k < kStreams; ++k)
        EXPECT_NEAR(comb[(t * kStreams + j) * kStreams + k], a[j][k], 1e-5);
    for (uint64_t e = 0; e < kHidden; ++e) {
      double want = 0;
      for (uint64_t i = 0; i < kStreams; ++i)
        want += pre[i] * streams[t * kFlat + i * kHidden + e];
      EXPECT_NEAR(x[t * kHidden + e], want, 1e-5);
    }
  }
  // It ends on a column step; the matrix is not symmetric.
  for (uint64_t k = 0; k < kStreams; ++k)
    EXPECT_NEAR(comb[k] + comb[4 + k] + comb[8 + k] + comb[12 + k], 1, 1e-5);
  EXPECT_GT(std::fabs(comb[1] - comb[4]), 1e-2);
}

TEST_F(HyperConnectionRef, PostSumsOverTheFirstIndex) {
  test::Random random(12);
  const std::vector<float> y = random.floats(2 * kHidden),
                           post = random.floats(2 * kStreams),
                           comb = random.floats(2 * kStreams * kStreams);
  std::vector<float> result(2 * kFlat);
  hcPost(kStreams, kHidden, y, streams, post, comb, result);
  for (uint64_t t = 0; t < 2; ++t)
    for (uint64_t k = 0; k < kStreams; ++k)
      for (uint64_t e = 0; e < kHidden; ++e) {
        double want = double(post[t * kStreams + k]) * y[t * kHidden + e];
        for (uint64_t j = 0; j < kStreams; ++j)
          want += double(comb[t * 16 + j * 4 + k]) *
                  streams[t * kFlat + j * kHidden + e];
        EXPECT_NEAR(result[t * kFlat + k * kHidden + e], want, 1e-5);
      }
}

TEST_F(HyperConnectionRef, HeadCollapseMatchesDouble) {
  fnWeight.bytes = fnWeight.bytes.first(kStreams * kFlat * 4);
  std::vector<float> result(2 * kHidden);
  headCollapse(params, streams, fnWeight, std::span(scale).first(1),
               std::span(base).first(kStreams), result);
  for (uint64_t t = 0; t < 2; ++t)
    for (uint64_t e = 0; e < kHidden; ++e) {
      double want = 0;
      for (uint64_t i = 0; i < kStreams; ++i)
        want += (sigmoid(mix(t, i) * scale[0] + base[i]) + 1e-6) *
                streams[t * kFlat + i * kHidden + e];
      EXPECT_NEAR(result[t * kHidden + e], want, 1e-5);
    }
}

double score(double logit) { return std::sqrt(std::log1p(std::exp(logit))); }

TEST(RouteRef, BiasChoosesAndDoesNotWeigh) {
  const std::vector<float> logits = {0.1f, 2, -1, 0.5f, 1};
  const std::vector<float> bias = {0, -5, 3, 0, 0};
  std::vector<int32_t> experts(3);
  std::vector<float> weights(3);
  ASSERT_FALSE(route(3, logits, bias, 1.5f, experts, weights));
  EXPECT_EQ(experts, (std::vector<int32_t>{2, 4, 3}));
  const double sum = score(-1) + score(1) + score(0.5);
  EXPECT_NEAR(weights[0], 1.5 * score(-1) / sum, 1e-6);
  EXPECT_NEAR(weights[1], 1.5 * score(1) / sum, 1e-6);
  EXPECT_NEAR(weights[2], 1.5 * score(0.5) / sum, 1e-6);
}

TEST(RouteRef, TiesFloorAndNan) {
  std::vector<int32_t> experts(2);
  std::vector<float> weights(2);
  // Equal scores: lower numbers first; scores of 0: the sum's floor.
  const std::vector<float> cold(4, -200.0f), zero = {-0.0f, 0.0f, -0.0f, 0.0f};
  ASSERT_FALSE(route(2, cold, zero, 1.5f, experts, weights));
  EXPECT_EQ(experts, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(weights[0], 0.0f);
  const std::vector<float> bad = {0, 0, 0, 0, 0, std::nanf(""), 0, 0};
  experts.resize(4), weights.resize(4);
  EXPECT_EQ(route(2, bad, zero, 1.5f, experts, weights), NanRow(1));
}

TEST(HashRouteRef, FollowsTheTable) {
  const std::vector<float> logits = {0.1f, 2, -1, 0.5f, 0.1f, 2, -1, 0.5f};
  const std::vector<int32_t> tokens = {2, 0};
  const std::vector<int32_t> table = {3, 2, 1, /**/ 0, 1, 2, /**/ 2, 0, 3};
  std::vector<int32_t> experts(6);
  std::vector<float> weights(6);
  ASSERT_FALSE(
      hashRoute(4, 3, 3, logits, tokens, table, 1.5f, experts, weights));
  EXPECT_EQ(experts, (std::vector<int32_t>{2, 0, 3, 3, 2, 1}));
  const double sum = score(-1) + score(0.1) + score(0.5);
  EXPECT_NEAR(weights[1], 1.5 * score(0.1) / sum, 1e-6);
  // Fewer than the table has: the highest scores.
  experts.resize(4), weights.resize(4);
  ASSERT_FALSE(
      hashRoute(4, 2, 3, logits, tokens, table, 1.5f, experts, weights));
  EXPECT_EQ(experts, (std::vector<int32_t>{3, 0, 1, 3}));
  EXPECT_NEAR(weights[0], 1.5 * score(0.5) / (score(0.5) + score(0.1)), 1e-6);
  // Equal scores: lower expert numbers first, whatever the row's order.
  const std::vector<float> equal(8, 1);
  ASSERT_FALSE(
      hashRoute(4, 2, 3, equal, tokens, table, 1.5f, experts, weights));
  EXPECT_EQ(experts, (std::vector<int32_t>{0, 2, 1, 2}));
}

TEST(SwigluRef, ClampsGateAboveAndUpOnBothSides) {
  const std::vector<float> gate = {3, 30, -30, 1, 1};
  const std::vector<float> up = {2, 2, 2, 30, -30};
  std::vector<float> y(5);
  swiglu(gate, up, 10, y);
  const auto silu = [](double g) { return g * sigmoid(g); };
  EXPECT_NEAR(y[0], silu(3) * 2, 1e-5);
  EXPECT_NEAR(y[1], silu(10) * 2, 1e-5);
  EXPECT_NEAR(y[2], silu(-30) * 2, 1e-12);
  EXPECT_NEAR(y[3], silu(1) * 10, 1e-5);
  EXPECT_NEAR(y[4], silu(1) * -10, 1e-5);
}

TEST(CombineRef, WeighsExpertsAndAddsTheSharedOne) {
  const std::vector<float> y = {1, 2, 3, 4, 5, 6, 7, 8}; // [2, 2, 2]
  const std::vector<float> weights = {0.5f, 2, 1, -1};
  const std::vector<float> shared = {10, 20, 30, 40};
  std::vector<float> result(4);
  combine(2, 2, y, weights, shared, result);
  EXPECT_EQ(result, (std::vector<float>{16.5f, 29, 28, 38}));
}

TEST(OutputRef, TakesTheLastTokensAndTheFirstMaximum) {
  const Step step{7, 4, 2, 0};
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> taken(4);
  takeOutputs(step, 2, x, taken);
  EXPECT_EQ(taken, (std::vector<float>{5, 6, 7, 8}));

  const std::vector<float> logits = {-1, -0.0f, 0, -3, 5, 9, 9, 2};
  std::vector<int32_t> best(2);
  ASSERT_FALSE(argmax(4, logits, best));
  EXPECT_EQ(best, (std::vector<int32_t>{1, 1}));
  const std::vector<float> bad = {1, 2, 3, 4, 5, 6, 7, std::nanf("")};
  EXPECT_EQ(argmax(4, bad, best), NanRow(1));
}

} // namespace
