// Kernels of the indexer and of attention against the oracle, bit for bit: the
// sizes of DeepSeek V4 Flash, small and uneven ones, rings that wrap, windows
// at the start of the sequence.
#include "ops/Reference.h"
#include "ops/test/KernelHarness.h"
#include "ops/test/RandomFloats.h"
#include "ops/test/States.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

using namespace ds4;
using namespace ds4::test;
using enum ds4::ref::RowStorage;

namespace {

struct ScoreCase {
  int64_t rows, heads, width, keyRows;
  ref::RowStorage storage;
  int64_t ratio, topK;
  std::vector<Step> steps;

  Kernel kernel{
      fmt::format("ds4.index_score %0, %1, %2 scale 0.0125 ratio {} top_k {}",
                  ratio, topK),
      {tensor({rows, heads, width}), tensor({rows, heads}),
       state(keyRows, width, storageName(storage))},
      {tensor({rows, keyRows})}};
};
const ScoreCase scoreCases[] = {
    {1, 64, 128, 32768, fp4, 4, 512, {{2047, 1, 1, 0}, {2051, 1, 1, 0}}},
    {3, 8, 32, 64, fp4, 4, 16, {{62, 3, 1, 0}, {66, 3, 1, 0}, {250, 2, 1, 0}}},
    // More rows than a launch has threads.
    {1, 2, 32, 16384, f16, 4, 16, {{65531, 1, 1, 0}}},
    {2, 3, 100, 20, f32, 2, 1, {{0, 2, 1, 0}, {37, 2, 1, 0}}},
    {2, 1, 5, 20, f32, 2, 2, {{20, 2, 1, 0}}},
    // Long steps: 32, 16 and 8 heads at a time, more tiles than blocks.
    {16, 64, 128, 512, fp4, 4, 16, {{66, 3, 1, 0}, {1990, 2, 1, 0}}},
    {1040, 16, 64, 128, f16, 4, 8, {{30, 20, 1, 0}, {400, 3, 1, 0}}},
    {20, 24, 32, 64, f16, 4, 16, {{62, 20, 1, 0}, {250, 2, 1, 0}}},
    {2, 2, 320, 40, fp8, 3, 4, {{20, 2, 1, 0}, {90, 1, 1, 0}}},
};

TEST(AttentionKernels, IndexScore) {
  for (const ScoreCase &c : scoreCases)
    for (const Step &step : c.steps) {
      SCOPED_TRACE(fmt::format("{} x {}, {} + {}", c.heads, c.width, step.start,
                               step.count));
      Random random(c.width);
      const auto q = random.floats(step.count * c.heads * c.width);
      const auto u = random.floats(step.count * c.heads);
      const auto keys =
          cacheOf(random, c.keyRows, c.width, c.storage, 0,
                  ref::visibleRows(step.start + step.count - 1, c.ratio));
      std::vector<float> expected(step.count * c.keyRows);
      // What the harness puts into memory that nobody writes.
      std::memset(expected.data(), 0xff, expected.size() * 4);
      std::vector<float> result = expected;
      ref::indexScore({uint64_t(c.heads), uint64_t(c.width), uint64_t(c.ratio),
                       uint64_t(c.topK), 0.0125f},
                      step, q, u, keys, expected);
      c.kernel.run(step, {in(q), in(u), in(keys.bytes), out(result)});
      expectSameBits(expected, result, "result");
    }
}

TEST(AttentionKernels, IndexScoreKeepsNan) {
  const ScoreCase &c = scoreCases[1];
  const Step step{250, 2, 1, 0};
  Random random(3);
  auto q = random.floats(step.count * c.heads * c.width);
  q[c.heads * c.width + 5] = std::nanf(""); // of the second token
  const auto u = random.floats(step.count * c.heads);
  const auto keys = cacheOf(random, c.keyRows, c.width, c.storage, 0, 63);
  std::vector<float> expected(step.count * c.keyRows), result(expected);
  ref::indexScore({uint64_t(c.heads), uint64_t(c.width), uint64_t(c.ratio),
                   uint64_t(c.topK), 0.0125f},
                  step, q, u, keys, expected);
  c.kernel.run(step, {in(q), in(u), in(keys.bytes), out(result)});
  for (int64_t w = 0; w < 62; ++w) {
    EXPECT_EQ(expected[w], result[w]);
    EXPECT_FALSE(std::isnan(expected[w]));
    EXPECT_TRUE(std::isnan(expected[c.keyRows + w]));
    EXPECT_TRUE(std::isnan(result[c.keyRows + w]));
  }
}

struct TopKCase {
  int64_t rows, scores, k, ratio;
  std::vector<Step> steps;

  Kernel kernel{fmt::format("ds4.top_k %0 k {} ratio {}", k, ratio),
                {tensor({rows, scores})},
                {tensor({rows, k}, "i32")}};
};
const TopKCase topKCases[] = {
    {2, 32768, 512, 4, {{131070, 2, 1, 0}, {2050, 2, 1, 0}, {90000, 1, 1, 0}}},
    {1, 8704, 512, 4, {{34815, 1, 1, 0}, {2051, 1, 1, 0}, {9000, 1, 1, 0}}},
    {3,
     64,
     16,
     4,
     {{0, 3, 1, 0}, {62, 3, 1, 0}, {66, 3, 1, 0}, {253, 3, 1, 0}}},
    {1, 1025, 7, 2, {{15, 1, 1, 0}, {2049, 1, 1, 0}}},
    {2, 40, 1, 1, {{0, 2, 1, 0}, {38, 2, 1, 0}}},
};

/// Scores of one kind a seed: distinct, many equal, nearly all +-0, extremes.
std::vector<float> scoresOf(uint64_t kind, uint64_t count) {
  Random random(kind);
  std::vector<float> scores = random.floats(count);
  for (float &score : scores) {
    if (kind == 1)
      score = std::floor(score * 3) / 4;
    if (kind == 2)
      score = random.below(50) ? (random.below(2) ? 0.0f : -0.0f) : score;
    if (kind == 3) {
      const float inf = std::numeric_limits<float>::infinity();
      const float values[] = {inf,  -inf,  3e38f,   -3e38f, 1e-45f,
                              0.0f, -0.0f, -1e-45f, 1.0f};
      score = values[random.below(9)];
    }
  }
  return scores;
}

TEST(AttentionKernels, TopK) {
  for (const TopKCase &c : topKCases)
    for (const Step &step : c.steps)
      for (uint64_t kind = 0; kind < 4; ++kind) {
        SCOPED_TRACE(fmt::format("{} of {}, {} + {}, kind {}", c.k, c.scores,
                                 step.start, step.count, kind));
        const auto scores = scoresOf(kind, step.count * c.scores);
        std::vector<int32_t> result(step.count * c.k),
            expected(result.size(), -1);
        EXPECT_FALSE(ref::topK(step, c.k, c.ratio, c.scores, scores, expected));
        const StepStatus status = c.kernel.run(step, {in(scores), out(result)});
        EXPECT_EQ(status.launch, 0u);
        expectSameBits(expected, result, "result");
      }
}

TEST(AttentionKernels, TopKOfEqualsTakesTheLowest) {
  for (const TopKCase &c : topKCases)
    for (const Step &step : c.steps)
      for (bool zeros : {false, true}) {
        SCOPED_TRACE(fmt::format("{} of {}, {} + {}", c.k, c.scores, step.start,
                                 step.count));
        // One better row, wherever stretches of two threads may meet: its
        // place is taken from the last of the equal ones.
        std::vector<float> scores(step.count * c.scores, zeros ? 0.0f : -1.5f);
        for (size_t i = 0; zeros && i < scores.size(); i += 3)
          scores[i] = -0.0f;
        for (int64_t better = 0; better < c.scores;
             better += std::max<int64_t>(1, c.scores / 5)) {
          auto changed = scores;
          for (int64_t t = 0; t < step.count; ++t)
            changed[t * c.scores + better] = 2.0f;
          std::vector<int32_t> result(step.count * c.k),
              expected(result.size(), -1);
          EXPECT_FALSE(
              ref::topK(step, c.k, c.ratio, c.scores, changed, expected));
          c.kernel.run(step, {in(changed), out(result)});
          expectSameBits(expected, result, "result");
        }
      }
}

TEST(AttentionKernels, TopKReportsNan) {
  const TopKCase &c = topKCases[2];
  const Step step = {66, 3, 1, 0};
  std::vector<int32_t> result(3 * c.k);
  auto scores = scoresOf(0, 3 * c.scores);
  // Row 1 sees 17 rows: the one behind them may hold anything.
  scores[c.scores + 17] = NAN;
  EXPECT_EQ(c.kernel.run(step, {in(scores), out(result)}).launch, 0u);
  scores[c.scores + 16] = -NAN;
  const StepStatus status = c.kernel.run(step, {in(scores), out(result)});
  EXPECT_EQ(status.launch, 1u);
  EXPECT_EQ(status.row, 1u);
}

struct AttendCase {
  int64_t rows, heads, width, window, ringRows;
  ref::RowStorage storage;
  int64_t ratio, compressedRows, k; ///< 0: none
  std::vector<Step> steps;

  std::string ring() const {
    return state(ringRows, width, storageName(storage));
  }
  std::string q() const { return tensor({rows, heads, width}); }
  std::string text() const {
    return fmt::format("ds4.attend %0, %1, %2, %3{}{} window {} ratio {} "
                       "scale 0.0625",
                       ratio ? " compressed %4" : "", k ? " selected %5" : "",
                       window, ratio);
  }
  std::vector<std::string> operands() const {
    std::vector<std::string> types = {q(), tensor({rows, width}), ring(),
                                      weight({heads})};
    if (ratio)
      types.push_back(state(compressedRows, width, storageName(storage)));
    if (k)
      types.push_back(tensor({rows, k}, "i32"));
    return types;
  }
  Kernel kernel{text(), operands(), {q()}};
};
const std::vector<Step> ringSteps = {
    {0, 1, 1, 0},  {0, 5, 1, 0},  {29, 5, 1, 0}, {31, 1, 1, 0},
    {62, 5, 1, 0}, {64, 3, 1, 0}, {203, 4, 1, 0}};
// Lists of 0, 1, 31, 32 and 33 rows at 4 tokens a row; windows that begin and
// end in the middle of a tile; steps that begin there.
const std::vector<Step> promptSteps = {
    {0, 1, 1, 0},   {0, 20, 1, 0}, {29, 5, 1, 0},  {31, 1, 1, 0},
    {62, 20, 1, 0}, {64, 3, 1, 0}, {123, 9, 1, 0}, {203, 4, 1, 0}};
const AttendCase attendCases[] = {
    // Flash: window only, CSA with a selection, HCA.
    {1, 64, 512, 128, 256, fp8, 0, 0, 0, {{300, 1, 1, 0}}},
    {1, 64, 512, 128, 256, fp8, 4, 2048, 512, {{5000, 1, 1, 0}}},
    {1, 64, 512, 128, 256, fp8, 128, 1024, 0, {{131071, 1, 1, 0}}},
    {2, 64, 512, 128, 256, fp8, 4, 64, 512, {{126, 2, 1, 0}}},
    // Small, with each storage.
    {5, 8, 128, 32, 64, fp8, 4, 64, 16, ringSteps},
    {5, 8, 128, 32, 64, f16, 0, 0, 0, ringSteps},
    {5, 8, 128, 32, 64, f16, 8, 32, 0, ringSteps},
    {5, 4, 128, 32, 64, f32, 4, 64, 16, ringSteps},
    // Uneven: heads, widths, windows; rows in 2, 4 and 8 panels.
    {5, 3, 100, 20, 31, f32, 4, 64, 5, ringSteps},
    {5, 1, 7, 1, 1, f16, 3, 80, 0, ringSteps},
    {2, 14, 192, 33, 40, fp8, 4, 64, 40, ringSteps},
    {1, 2, 1000, 40, 40, f32, 4, 64, 7, {{0, 1, 1, 0}, {203, 1, 1, 0}}},
    {1, 2, 2049, 40, 40, f16, 4, 64, 0, {{203, 1, 1, 0}}},
    // Long steps: Flash's heads, with lists of both kinds and without.
    {16, 64, 512, 128, 256, fp8, 4, 64, 512, {{126, 2, 1, 0}, {1, 2, 1, 0}}},
    {16, 32, 512, 128, 256, fp8, 128, 64, 0, {{4990, 3, 1, 0}}},
    {16, 32, 512, 128, 256, fp8, 0, 0, 0, {{32, 1, 1, 0}, {300, 2, 1, 0}}},
    // 8 and 16 heads a block; 4 panels; each storage.
    {20, 8, 128, 32, 64, fp8, 4, 64, 40, promptSteps},
    {20, 8, 128, 32, 64, f16, 4, 64, 0, promptSteps},
    {20, 24, 128, 40, 60, f32, 0, 0, 0, promptSteps},
    {20, 16, 256, 33, 40, fp8, 4, 64, 40, promptSteps},
    {16, 16, 1024, 20, 31, f32, 4, 64, 5, {{0, 3, 1, 0}, {30, 4, 1, 0}}},
    // Steps longer than the ring.
    {70, 8, 128, 33, 40, fp8, 4, 64, 40, {{0, 70, 1, 0}, {50, 70, 1, 0}}},
    // Keys of FP4 rows.
    {2, 6, 96, 16, 16, fp4, 4, 64, 0, {{0, 2, 1, 0}, {77, 2, 1, 0}}},
};

/// A selection of `k` of `visible` rows, ascending; all if there are fewer.
std::vector<int32_t> selectionOf(Random &random, int64_t visible, int64_t k) {
  std::vector<int32_t> rows;
  for (int64_t row = 0; row < visible; ++row) {
    const int64_t wanted = k - int64_t(rows.size());
    if (random.below(uint32_t(visible - row)) < wanted)
      rows.push_back(int32_t(row));
  }
  rows.resize(k, -1);
  return rows;
}

TEST(AttentionKernels, Attend) {
  for (const AttendCase &c : attendCases)
    for (Step step : c.steps) {
      step.count = std::min<int32_t>(step.count, c.rows);
      SCOPED_TRACE(fmt::format("{} x {} {}, ratio {}, k {}, {} + {}", c.heads,
                               c.width, storageName(c.storage), c.ratio, c.k,
                               step.start, step.count));
      Random random(c.width + step.start);
      const uint64_t count = step.count;
      const auto q = random.floats(count * c.heads * c.width);
      const auto kv = storedRows(random, c.storage, count, c.width);
      const auto ring =
          ringBefore(random, c.ringRows, c.width, c.storage, step);
      const auto sinks = random.floats(c.heads);
      std::optional<ref::State> compressed;
      std::vector<int32_t> selected;
      if (c.ratio) {
        compressed.emplace(
            cacheOf(random, c.compressedRows, c.width, c.storage, 0,
                    ref::visibleRows(step.start + count - 1, c.ratio)));
        for (uint64_t t = 0; c.k && t < count; ++t)
          for (int32_t row : selectionOf(
                   random, ref::visibleRows(step.start + t, c.ratio), c.k))
            selected.push_back(row);
      }
      std::vector<float> result(q.size()), expected = result;
      ref::attend({uint64_t(c.heads), uint64_t(c.width), uint64_t(c.window),
                   uint64_t(c.ratio), 0.0625f},
                  step, q, kv, ring, sinks, compressed ? &*compressed : nullptr,
                  selected, expected);
      c.kernel.run(step, {in(q), in(kv), in(ring.bytes), in(sinks),
                          c.ratio ? in(compressed->bytes) : none(),
                          c.k ? in(selected) : none(), out(result)});
      expectSameBits(expected, result, "result");
    }
}

} // namespace
