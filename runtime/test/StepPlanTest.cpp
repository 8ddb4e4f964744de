// StepPlanTest.cpp - how runs of tokens are cut into steps.
#include "runtime/StepPlan.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace ds4 {

static void PrintTo(const PlannedStep &step, std::ostream *os) {
  *os << "{f" << step.function << ", first " << step.first << ", count "
      << step.count << ", outputs " << step.outputs << "}";
}

namespace {

Function phase(std::string name, uint32_t capacity, uint32_t outputs) {
  Function function;
  function.name = std::move(name);
  function.capacity = capacity;
  function.outputs = outputs;
  return function;
}

using Steps = std::vector<PlannedStep>;

TEST(StepPlanTest, PrefillInChunksThenDecode) {
  std::vector<Function> phases{phase("prefill", 8, 1), phase("decode", 1, 1)};
  std::vector<uint32_t> last{16};
  EXPECT_EQ(planSteps(phases, 17, last, 0),
            (Steps{{0, 0, 8, 0}, {0, 8, 8, 0}, {1, 16, 1, 1}}));
  last = {9};
  EXPECT_EQ(planSteps(phases, 10, last, 0),
            (Steps{{0, 0, 8, 0}, {0, 8, 2, 1}}));
}

TEST(StepPlanTest, ChunkOptionBoundsAStep) {
  std::vector<Function> phases{phase("prefill", 8, 1), phase("decode", 1, 1)};
  std::vector<uint32_t> last{5};
  EXPECT_EQ(planSteps(phases, 6, last, 3), (Steps{{0, 0, 3, 0}, {0, 3, 3, 1}}));
  EXPECT_EQ(planSteps(phases, 2, {}, 1), (Steps{{1, 0, 1, 0}, {1, 1, 1, 0}}));
  // More than the capacity changes nothing.
  EXPECT_EQ(planSteps(phases, 8, {}, 100), (Steps{{0, 0, 8, 0}}));
}

TEST(StepPlanTest, StepsEndWhereLogitsAreWanted) {
  std::vector<Function> phases{phase("prefill", 8, 2), phase("decode", 1, 1)};
  std::vector<uint32_t> rows{3, 4, 6, 11};
  EXPECT_EQ(planSteps(phases, 12, rows, 0),
            (Steps{{0, 0, 5, 2}, {0, 5, 3, 2}, {0, 8, 4, 1}}));
}

TEST(StepPlanTest, NoTokensNoSteps) {
  std::vector<Function> phases{phase("decode", 1, 1)};
  EXPECT_TRUE(planSteps(phases, 0, {}, 0).empty());
}

TEST(StepPlanTest, EveryRowIsComputedOnceWhateverTheShape) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Function> phases{
        phase("decode", 1, 1),
        phase("prefill", 1 + random() % 20, 1 + random() % 5)};
    if (random() % 2)
      phases.push_back(phase("verify", 4, 4));
    uint32_t tokens = random() % 60;
    std::vector<uint32_t> rows;
    for (uint32_t row = 0; row < tokens; ++row)
      if (random() % 4 == 0)
        rows.push_back(row);
    uint32_t first = 0;
    size_t found = 0;
    for (const PlannedStep &step :
         planSteps(phases, tokens, rows, random() % 10)) {
      const Function &function = phases[step.function];
      ASSERT_EQ(step.first, first);
      ASSERT_GE(step.count, 1u);
      ASSERT_LE(step.count, function.capacity);
      ASSERT_LE(step.outputs, function.outputs);
      ASSERT_LE(step.outputs, step.count);
      first += step.count;
      while (found < rows.size() && rows[found] < first) {
        ASSERT_GE(rows[found], first - step.outputs);
        ++found;
      }
    }
    ASSERT_EQ(first, tokens);
    ASSERT_EQ(found, rows.size());
  }
}

} // namespace
} // namespace ds4
