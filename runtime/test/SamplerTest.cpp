// Sampling: the filters on logits small enough to work out by hand, the
// frequency of draws, and that they are the same everywhere.
#include "runtime/Sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>

using namespace ds4;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Sampler sampler(SamplerOptions options) {
  Result<Sampler> made = Sampler::create(options);
  EXPECT_TRUE(made);
  return *made;
}

std::vector<TokenProbability> distribution(SamplerOptions options,
                                           std::vector<float> logits) {
  auto result = sampler(options).distribution(logits);
  EXPECT_TRUE(result) << result.error().text;
  return *result;
}

std::vector<TokenId> kept(SamplerOptions options, std::vector<float> logits) {
  std::vector<TokenId> ids;
  for (TokenProbability entry : distribution(options, std::move(logits)))
    ids.push_back(entry.id);
  return ids;
}

/// Logits of the given probabilities.
std::vector<float> logitsOf(std::vector<double> probabilities) {
  std::vector<float> logits;
  for (double probability : probabilities)
    logits.push_back(static_cast<float>(std::log(probability)));
  return logits;
}

std::string greedyFailure(std::vector<float> logits) {
  Result<TokenId> token = greedyToken(logits);
  return token ? "no error" : token.error().text;
}

} // namespace

TEST(Sampler, GreedyTakesTheHighestThenTheLowestId) {
  auto greedy = [](std::vector<float> logits) { return *greedyToken(logits); };
  EXPECT_EQ(greedy({1, 3, 2}), 1);
  EXPECT_EQ(greedy({1, 3, 3}), 1);
  EXPECT_EQ(greedy({-0.0f, 0.0f}), 0);
  EXPECT_EQ(greedy({-kInf, -5, -kInf}), 1);
  EXPECT_EQ(greedy({1, kInf}), 1);
}

TEST(Sampler, GreedyRefusesWhatHasNoHighest) {
  EXPECT_THAT(greedyFailure({1, 2, kNan, kNan}),
              HasSubstr("logit 2 of 4 is NaN"));
  EXPECT_THAT(greedyFailure({kNan}), HasSubstr("logit 0 of 1 is NaN"));
  EXPECT_THAT(greedyFailure({-kInf, -kInf}), HasSubstr("all 2 logits"));
  EXPECT_THAT(greedyFailure({}), HasSubstr("all 0 logits"));
}

TEST(Sampler, TemperatureZeroIsGreedy) {
  std::vector<float> logits = {0, 2, 2, 1};
  Sampler greedy = sampler({.temperature = 0, .topK = 3, .topP = 0.5f});
  for (uint64_t position = 0; position < 50; ++position)
    EXPECT_EQ(*greedy.sample(logits, position), 1);
  auto entries = distribution({.temperature = 0}, logits);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].probability, 1);
}

TEST(Sampler, TopK) {
  std::vector<float> logits = {1, 4, 2, 4, 3};
  EXPECT_THAT(kept({.topK = 0}, logits), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(kept({.topK = 3}, logits), ElementsAre(1, 3, 4));
  // Of equals, the lower id.
  EXPECT_THAT(kept({.topK = 1}, logits), ElementsAre(1));
  EXPECT_THAT(kept({.topK = 9}, logits), ElementsAre(0, 1, 2, 3, 4));
}

TEST(Sampler, TopP) {
  auto logits = logitsOf({0.1, 0.5, 0.15, 0.25});
  EXPECT_THAT(kept({.topP = 0}, logits), ElementsAre(1));
  EXPECT_THAT(kept({.topP = 0.49f}, logits), ElementsAre(1));
  EXPECT_THAT(kept({.topP = 0.51f}, logits), ElementsAre(1, 3));
  EXPECT_THAT(kept({.topP = 0.76f}, logits), ElementsAre(1, 2, 3));
  EXPECT_THAT(kept({.topP = 1}, logits), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(kept({.topP = 0}, {5, 5, 5}), ElementsAre(0));
}

TEST(Sampler, TopPOfManyTokens) {
  // More equals than one step of the sort: ids decide.
  std::vector<float> logits(1000, 0.5f);
  auto ids = kept({.topP = 0.7495f}, logits);
  EXPECT_EQ(ids.size(), 750u);
  EXPECT_EQ(ids.back(), 749);
  // Each a little above the one before: the last ids are kept.
  for (size_t id = 0; id < logits.size(); ++id)
    logits[id] = static_cast<float>(id) * 0.001f;
  ids = kept({.topP = 0.5f}, logits);
  // sum over the last n of e^(id/1000) is half of e - 1 at n = 380.
  EXPECT_EQ(ids.size(), 380u);
  EXPECT_EQ(ids.front(), 620);
  // The bulk below a few high ones.
  logits[900] = logits[10] = 20;
  EXPECT_THAT(kept({.topP = 0.9f}, logits), ElementsAre(10, 900));
}

TEST(Sampler, MinP) {
  auto logits = logitsOf({0.1, 0.5, 0.15, 0.25});
  EXPECT_THAT(kept({.minP = 0.19f}, logits), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(kept({.minP = 0.21f}, logits), ElementsAre(1, 2, 3));
  EXPECT_THAT(kept({.minP = 1}, logits), ElementsAre(1));
}

TEST(Sampler, FiltersComeBeforeTemperatureAndInOrder) {
  auto logits = logitsOf({0.1, 0.5, 0.15, 0.25});
  // A high temperature flattens what is drawn, not what is kept.
  EXPECT_THAT(kept({.temperature = 100, .topP = 0.51f}, logits),
              ElementsAre(1, 3));
  EXPECT_THAT(kept({.temperature = 100, .minP = 0.4f}, logits),
              ElementsAre(1, 3));
  // Top-p counts from what top-k has left: 0.5 of 0.75, not of 1.
  EXPECT_THAT(kept({.topK = 2, .topP = 0.6f}, logits), ElementsAre(1));
}

TEST(Sampler, DistributionIsSoftmax) {
  std::vector<float> logits = {0.5f, -3, 2, -kInf, 1.25f, -80, -700};
  for (float temperature : {0.3f, 1.0f, 2.5f}) {
    double total = 0;
    for (float logit : logits)
      total += std::exp((logit - 2.0) / temperature);
    for (auto [id, probability] :
         distribution({.temperature = temperature}, logits)) {
      double expected =
          std::exp((logits[static_cast<size_t>(id)] - 2.0) / temperature) /
          total;
      // Four units in the last place: exp, sum and division round.
      EXPECT_NEAR(probability, expected, 1e-15 * expected) << id;
    }
  }
  EXPECT_THAT(kept({}, logits), ElementsAre(0, 1, 2, 4, 5, 6));
}

TEST(Sampler, ExtremeLogitsStayFinite) {
  float big = std::numeric_limits<float>::max();
  auto entries = distribution({.temperature = 1e-30f}, {big, -big, big, 0});
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[1].id, 2);
  EXPECT_EQ(entries[1].probability, 0.5);
  Sampler cold = sampler({.temperature = 1e-30f});
  for (uint64_t position = 0; position < 50; ++position)
    EXPECT_NE(*cold.sample(std::vector{-big, 0.0f, -1.0f}, position), 0);
}

TEST(Sampler, RefusesRowsWithoutDistribution) {
  auto failure = [](std::vector<float> logits) {
    Result<TokenId> token = sampler({}).sample(logits, 0);
    return token ? "no error" : token.error().text;
  };
  EXPECT_THAT(failure({0, kNan}), HasSubstr("logit 1 of 2 is NaN"));
  EXPECT_THAT(failure({0, kInf}), HasSubstr("logit 1 of 2 is +inf"));
  EXPECT_THAT(failure({-kInf, -kInf}), HasSubstr("all 2 logits are -inf"));
  EXPECT_EQ(failure({-kInf, 1}), "no error");
}

TEST(Sampler, RefusesOptionsOutOfRange) {
  auto failure = [](SamplerOptions options) {
    Result<Sampler> made = Sampler::create(options);
    return made ? "no error" : made.error().text;
  };
  for (float bad : {-0.1f, kNan}) {
    EXPECT_THAT(failure({.temperature = bad}), HasSubstr("temperature"));
    EXPECT_THAT(failure({.topP = bad}), HasSubstr("top-p"));
    EXPECT_THAT(failure({.minP = bad}), HasSubstr("min-p"));
  }
  EXPECT_THAT(failure({.temperature = kInf}), HasSubstr("temperature inf"));
  EXPECT_THAT(failure({.topP = 1.5f}), HasSubstr("top-p 1.5"));
}

TEST(Sampler, GeneratorIsSplitMix64) {
  // The first outputs for seed 1234567, as published with the generator.
  EXPECT_EQ(splitMix64(1234567, 0), 6457827717110365317u);
  EXPECT_EQ(splitMix64(1234567, 1), 3203168211198807973u);
  EXPECT_EQ(splitMix64(1234567, 2), 9817491932198370423u);
}

TEST(Sampler, DrawsAreFixed) {
  // From a Python model of the same rules; no platform may differ.
  std::vector<float> logits;
  for (int id = 0; id < 100; ++id)
    logits.push_back(static_cast<float>(id * 37 % 100) * 0.05f);
  auto draws = [&](SamplerOptions options) {
    std::vector<TokenId> tokens;
    for (uint64_t position = 0; position < 8; ++position)
      tokens.push_back(*sampler(options).sample(logits, position));
    return tokens;
  };
  EXPECT_THAT(draws({.seed = 42}), ElementsAre(73, 16, 27, 34, 5, 86, 24, 81));
  EXPECT_THAT(draws({.temperature = 0.8f,
                     .topK = 40,
                     .topP = 0.95f,
                     .minP = 0.05f,
                     .seed = 42}),
              ElementsAre(70, 16, 27, 32, 5, 86, 24, 81));
  EXPECT_NE(draws({.seed = 42}), draws({.seed = 43}));
}

TEST(Sampler, FrequenciesFollowTheDistribution) {
  std::vector<double> expected = {0.05, 0.45, 0.2, 0.3};
  auto logits = logitsOf(expected);
  Sampler sampling = sampler({.seed = 7});
  constexpr int kDraws = 40000;
  std::map<TokenId, int> counts;
  for (uint64_t position = 0; position < kDraws; ++position)
    ++counts[*sampling.sample(logits, position)];
  for (TokenId id = 0; id < 4; ++id) {
    double p = expected[static_cast<size_t>(id)];
    // Five standard deviations of a binomial count; the seed is fixed.
    EXPECT_NEAR(counts[id], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p)));
  }
}
