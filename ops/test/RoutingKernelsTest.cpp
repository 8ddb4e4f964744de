// Kernels of expert choice, activation, combination and argmax against the
// oracle, bit for bit.
#include "ops/Reference.h"
#include "ops/test/KernelHarness.h"
#include "ops/test/RandomFloats.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

using namespace ds4;
using namespace ds4::test;

namespace {

struct GroupCase {
  int64_t rows, experts, used;
  std::vector<int32_t> counts; ///< of tokens in a step
  Kernel group{fmt::format("ds4.group_pairs %0 of {}", experts),
               {tensor({rows, used}, "i32")},
               {tensor({rows, used}, "i32")}};
};
const GroupCase groupCases[] = {{40, 256, 6, {40, 39, 1}},
                                {300, 8, 3, {300}},
                                {1, 1, 1, {1}},
                                {9, 300, 2, {9}},
                                // more pairs than a GPU's block has threads
                                {1200, 400, 2, {1200, 700}}};

TEST(RoutingKernels, GroupPairs) {
  for (const GroupCase &c : groupCases)
    for (int32_t count : c.counts) {
      SCOPED_TRACE(fmt::format("{} tokens, {} experts", count, c.experts));
      Random random(c.experts);
      std::vector<int32_t> experts(count * c.used);
      for (int32_t &expert : experts)
        expert = static_cast<int32_t>(random.below(c.experts));
      std::vector<int32_t> sorted(experts.size(), -1), want(experts.size());
      ref::groupPairs(experts, want);
      c.group.run(Step{3, count, 1, 0}, {in(experts), out(sorted)});
      EXPECT_EQ(sorted, want);
    }
}

struct RouteCase {
  int64_t rows, experts, used, listed;
  std::vector<Step> steps;

  std::vector<std::string> results() const {
    return {tensor({rows, used}, "i32"), tensor({rows, used})};
  }
  Kernel route{"ds4.route %0, %1 scale 1.5",
               {tensor({rows, experts}), weight({experts})},
               results()};
  Kernel hash{"ds4.hash_route %0, %1, %2 scale 1.5",
              {tensor({rows, experts}), tensor({rows}, "i32"),
               weight({100, listed}, "i32")},
              results()};
};
const RouteCase routeCases[] = {
    {2, 256, 6, 6, {{7, 2, 1, 0}}},   {4, 8, 3, 3, {{0, 3, 1, 0}}},
    {1, 384, 4, 6, {{7, 1, 1, 0}}},   {3, 8, 8, 8, {{7, 3, 1, 0}}},
    {2, 33, 1, 40, {{7, 2, 1, 0}}},   {2, 1, 1, 1, {{7, 2, 1, 0}}},
    {3, 300, 40, 45, {{7, 3, 1, 0}}},
};

/// Logits: distinct, or few values so that scores tie, or very small and large
/// ones (scores of 0, sums below 2^-14).
std::vector<float> logitsOf(uint64_t kind, uint64_t count) {
  Random random(kind);
  std::vector<float> logits = random.floats(count, 3);
  for (float &logit : logits) {
    if (kind == 1)
      logit = std::floor(logit);
    if (kind == 2)
      logit = logit * 8 - 40;
    if (kind == 3)
      logit = random.below(3) ? -200 : logit * 40;
  }
  return logits;
}

TEST(RoutingKernels, Route) {
  for (const RouteCase &c : routeCases)
    for (const Step &step : c.steps)
      for (uint64_t kind = 0; kind < 4; ++kind) {
        SCOPED_TRACE(fmt::format("{} of {}, kind {}", c.used, c.experts, kind));
        Random random(c.experts);
        const uint64_t n = step.count;
        const auto logits = logitsOf(kind, n * c.experts);
        std::vector<float> bias = random.floats(c.experts, 0.1f);
        if (kind == 1 || kind == 3)
          for (float &b : bias)
            b = random.below(2) ? 0.0f : -0.0f;
        std::vector<int32_t> experts(n * c.used), refExperts = experts;
        std::vector<float> weights(n * c.used), refWeights = weights;
        EXPECT_FALSE(
            ref::route(c.used, logits, bias, 1.5f, refExperts, refWeights));
        const StepStatus status = c.route.run(
            step, {in(logits), in(bias), out(experts), out(weights)});
        EXPECT_EQ(status.launch, 0u);
        expectSameBits(refExperts, experts, "experts");
        expectSameBits(refWeights, weights, "weights");
      }
}

TEST(RoutingKernels, HashRoute) {
  for (const RouteCase &c : routeCases)
    for (const Step &step : c.steps)
      for (uint64_t kind = 0; kind < 4; ++kind) {
        SCOPED_TRACE(fmt::format("{} of {}, kind {}", c.used, c.listed, kind));
        Random random(c.experts);
        const uint64_t n = step.count;
        const auto logits = logitsOf(kind, n * c.experts);
        std::vector<int32_t> tokens(n), table(100 * c.listed);
        for (int32_t &token : tokens)
          token = random.below(100);
        for (int32_t &expert : table)
          expert = random.below(c.experts);
        std::vector<int32_t> experts(n * c.used), refExperts = experts;
        std::vector<float> weights(n * c.used), refWeights = weights;
        EXPECT_FALSE(ref::hashRoute(c.experts, c.used, c.listed, logits, tokens,
                                    table, 1.5f, refExperts, refWeights));
        const StepStatus status =
            c.hash.run(step, {in(logits), in(tokens), in(table), out(experts),
                              out(weights)});
        EXPECT_EQ(status.launch, 0u);
        expectSameBits(refExperts, experts, "experts");
        expectSameBits(refWeights, weights, "weights");
      }
}

TEST(RoutingKernels, RoutersReportNan) {
  const RouteCase &c = routeCases[1];
  const Step &step = c.steps[0];
  const uint64_t n = step.count;
  auto logits = logitsOf(0, n * c.experts);
  // The fourth row is past the step: the harness fills it with NaN.
  logits[2 * c.experts + 7] = NAN;
  const std::vector<float> bias(c.experts);
  const std::vector<int32_t> tokens(n), table(100 * c.listed);
  std::vector<int32_t> experts(n * c.used);
  std::vector<float> weights(n * c.used);
  StepStatus status =
      c.route.run(step, {in(logits), in(bias), out(experts), out(weights)});
  EXPECT_EQ(status.launch, 1u);
  EXPECT_EQ(status.row, 2u);
  status = c.hash.run(
      step, {in(logits), in(tokens), in(table), out(experts), out(weights)});
  EXPECT_EQ(status.launch, 1u);
  EXPECT_EQ(status.row, 2u);
}

struct ExpertCase {
  int64_t rows, used, width;
  std::vector<Step> steps;

  std::string h() const { return tensor({rows, used, width}); }
  Kernel swiglu{"ds4.swiglu %0, %1 limit 1.0e1 : " + h(), {h(), h()}, {h()}};
  Kernel combine{"ds4.combine %0, %1, %2",
                 {h(), tensor({rows, used}), tensor({rows, width})},
                 {tensor({rows, width})}};
};
const ExpertCase expertCases[] = {
    {2, 6, 4096, {{7, 2, 1, 0}}}, {1, 6, 2048, {{7, 1, 1, 0}}},
    {4, 3, 256, {{0, 3, 1, 0}}},  {3, 1, 33, {{0, 3, 1, 0}}},
    {2, 2, 1, {{0, 1, 1, 0}}},
};

TEST(RoutingKernels, Swiglu) {
  for (const ExpertCase &c : expertCases)
    for (const Step &step : c.steps) {
      SCOPED_TRACE(fmt::format("{} x {}", c.used, c.width));
      Random random(c.width);
      const uint64_t n = step.count * c.used * c.width;
      auto gate = random.floats(n, 20), up = random.floats(n, 20);
      const float inf = std::numeric_limits<float>::infinity();
      const float special[] = {0.0f, -0.0f, inf, -inf, 10.0f, -10.0f, NAN};
      for (uint64_t i = 0; i < n; i += 5)
        (i % 2 ? gate : up)[i] = special[random.below(7)];
      std::vector<float> result(n), expected = result;
      ref::swiglu(gate, up, 10.0f, expected);
      c.swiglu.run(step, {in(gate), in(up), out(result)});
      // Which NaN an operation gives is not defined; that it gives one is.
      for (auto *values : {&result, &expected})
        for (float &value : *values)
          if (value != value)
            value = NAN;
      expectSameBits(expected, result, "result");
    }
}

TEST(RoutingKernels, Combine) {
  for (const ExpertCase &c : expertCases)
    for (const Step &step : c.steps) {
      SCOPED_TRACE(fmt::format("{} x {}", c.used, c.width));
      Random random(c.width);
      const uint64_t n = step.count;
      const auto y = random.floats(n * c.used * c.width);
      const auto weights = random.floats(n * c.used);
      const auto shared = random.floats(n * c.width);
      std::vector<float> result(n * c.width), expected = result;
      ref::combine(c.used, c.width, y, weights, shared, expected);
      c.combine.run(step, {in(y), in(weights), in(shared), out(result)});
      expectSameBits(expected, result, "result");
    }
}

struct ArgmaxCase {
  int64_t rows, vocab;
  std::vector<Step> steps;
  Kernel kernel{
      "ds4.argmax %0", {tensor({rows, vocab})}, {tensor({rows}, "i32")}};
};
const ArgmaxCase argmaxCases[] = {
    {2, 129280, {{7, 2, 2, 0}}},
    {4, 512, {{7, 4, 3, 0}}},
    {4, 1, {{7, 4, 1, 0}}},
    {1, 77, {{7, 4, 0, 0}}},
};

TEST(RoutingKernels, Argmax) {
  for (const ArgmaxCase &c : argmaxCases)
    for (const Step &step : c.steps)
      for (uint64_t kind = 0; kind < 4; ++kind) {
        SCOPED_TRACE(fmt::format("{}, kind {}", c.vocab, kind));
        auto logits = logitsOf(kind, step.outputs * c.vocab);
        // All that differ from zero become negative: +-0 are the greatest.
        if (kind == 3)
          for (float &logit : logits)
            logit = logit > 0 ? 0.0f : logit > -10 ? -0.0f : logit;
        std::vector<int32_t> result(step.outputs), expected = result;
        EXPECT_FALSE(ref::argmax(c.vocab, logits, expected));
        EXPECT_EQ(c.kernel.run(step, {in(logits), out(result)}).launch, 0u);
        expectSameBits(expected, result, "result");
      }
}

/// Places at which threads, waves, groups of eight and blocks of a row meet.
std::vector<int64_t> seamsOf(int64_t count) {
  std::vector<int64_t> seams;
  for (int64_t at : {0, 1, 7, 8, 31, 32, 63, 64, 255, 256, 257, 511, 512, 1024})
    if (at < count)
      seams.push_back(at);
  if (seams.back() != count - 1)
    seams.push_back(count - 1);
  return seams;
}

TEST(RoutingKernels, ArgmaxOfEqualsIsTheLowest) {
  const ArgmaxCase &c = argmaxCases[0];
  const Step step = {7, 1, 1, 0};
  for (int64_t low : seamsOf(c.vocab))
    for (int64_t high : seamsOf(c.vocab))
      for (float top : {3.0f, 0.0f}) {
        if (low >= high)
          continue;
        SCOPED_TRACE(fmt::format("{} and {} are {}", low, high, top));
        std::vector<float> logits(c.vocab, -2.0f);
        logits[low] = top == 0 ? -0.0f : top; // -0 equals +0
        logits[high] = top;
        std::vector<int32_t> result(1);
        c.kernel.run(step, {in(logits), out(result)});
        ASSERT_EQ(result[0], low);
      }
}

TEST(RoutingKernels, RouteOfEqualsTakesTheLowest) {
  for (const RouteCase &c : routeCases) {
    SCOPED_TRACE(fmt::format("{} of {}", c.used, c.experts));
    const Step step = {7, 1, 1, 0};
    const std::vector<float> logits(c.experts, 0.5f), bias(c.experts, -0.25f);
    std::vector<int32_t> experts(c.used);
    std::vector<float> weights(c.used);
    c.route.run(step, {in(logits), in(bias), out(experts), out(weights)});
    for (int32_t i = 0; i < c.used; ++i)
      EXPECT_EQ(experts[i], i);
  }
}

TEST(RoutingKernels, ArgmaxReportsANanAnywhere) {
  const ArgmaxCase &c = argmaxCases[0];
  const Step step = {7, 1, 1, 0};
  for (int64_t at : seamsOf(c.vocab)) {
    std::vector<float> logits(c.vocab, -2.0f);
    logits[at] = at % 2 ? NAN : -NAN;
    std::vector<int32_t> result(1);
    EXPECT_EQ(c.kernel.run(step, {in(logits), out(result)}).launch, 1u) << at;
  }
}

TEST(RoutingKernels, ArgmaxReportsNan) {
  const ArgmaxCase &c = argmaxCases[1];
  const Step &step = c.steps[0];
  auto logits = logitsOf(0, step.outputs * c.vocab);
  logits[2 * c.vocab + 511] = NAN;
  std::vector<int32_t> result(step.outputs);
  const StepStatus status = c.kernel.run(step, {in(logits), out(result)});
  EXPECT_EQ(status.launch, 1u);
  EXPECT_EQ(status.row, 2u);
}

} // namespace
