// How GPUs do products in long steps, against the oracle, bit for bit: by tiles
// of matrix instructions (ops/tile.h), which are emulated for both
// targets, and of f32 (ops/linear_strided.hip). The widths of DeepSeek V4
// Flash, tiles and stages that are not full, every format that has tiles.
#include "ops/test/LinearCases.h"

using namespace ds4;
using namespace ds4::test;
using enum WeightFormat;

namespace {

/// Every kernel is cut for sm_90, too (KernelHarness.h).
constexpr const char *kTarget = "gfx1151";
constexpr int64_t kColumns = 64;

const std::deque<LinearCase> &linearCases() {
  static const std::deque<LinearCase> cases = [] {
    std::deque<LinearCase> all;
    auto add = [&](int64_t capacity, int64_t groups, int64_t out, int64_t in,
                   WeightFormat format, Step step, RowRatio ratio = 1,
                   WeightLayout layout = WeightLayout::lanes) {
      all.emplace_back(capacity, groups, out, in, format, true, step, ratio,
                       kColumns, kTarget, layout);
    };
    for (WeightFormat format :
         {q4_0_rocmfp4_fast, q3_0_rocmfpx, q2_0_rocmfp2, q2_1_rocmfp2_mix,
          q3_1_rocmfp3_mix, q8_0, q4_0, q5_0, iq4_nl, mxfp4, q4_0_rocmfp4,
          q6_0_rocmfpx, q8_0_rocmfpx, q2_0_rocmfp2_s40, q2_0_rocmfp2_fp2s})
      add(10, 0, 7, 512, format, {5, 9, 1, 0});
    // Flash; a lone block of a segment, three of them.
    for (int64_t in : {1024, 2048, 4096, 8192, 256, 768})
      for (WeightFormat format : {q4_0_rocmfp4_fast, q3_1_rocmfp3_mix})
        add(10, 0, 7, in, format, {0, 9, 1, 0});
    // Several blocks both ways, the last ones not full.
    add(140, 0, 100, 256, q2_0_rocmfp2, {7, 131, 1, 0});
    add(70, 3, 70, 256, q2_0_rocmfp2, {0, 66, 1, 0});
    add(12, 0, 64, 1024, q8_0, {3, 9, 5, 0}, 0);
    add(20, 0, 64, 512, q3_0_rocmfpx, {3, 80, 1, 0}, 4);
    add(20, 0, 40, 512, q8_0, {5, 18, 1, 0}, 1, WeightLayout::file);
    add(20, 0, 40, 512, q3_0_rocmfpx, {5, 18, 1, 0}, 1, WeightLayout::file);
    return all;
  }();
  return cases;
}
// Declares the kernels before the first test runs.
const std::deque<LinearCase> &allLinearCases = linearCases();

TEST(Tile, Linear) {
  for (const LinearCase &c : allLinearCases)
    c.run();
}

const std::deque<LinearCase> &floatCases() {
  static const std::deque<LinearCase> cases = [] {
    std::deque<LinearCase> all;
    auto add = [&](int64_t capacity, int64_t groups, int64_t out, int64_t in,
                   WeightFormat format, Step step, int64_t shared = kColumns,
                   RowRatio ratio = 1) {
      all.emplace_back(capacity, groups, out, in, format, false, step, ratio,
                       shared, kTarget);
    };
    for (WeightFormat format :
         {f16, q8_0, q2_1_rocmfp2_mix, q4_0_rocmfp4_fast, q6_K})
      add(10, 0, 7, 1024, format, {5, 9, 1, 0});
    // Flash; a partial sum of one term, of three.
    for (int64_t in : {4096, 256, 768})
      add(10, 0, 40, in, bf16, {0, 9, 1, 0});
    // Several blocks both ways, the last ones not full.
    add(140, 0, 70, 512, f16, {7, 131, 1, 0});
    add(70, 3, 35, 256, q8_0, {0, 66, 1, 0});
    add(20, 0, 64, 512, f32, {3, 80, 1, 0}, kColumns, 4);
    // Eight rows at a time.
    add(9, 3, 6, 128, q8_0, {0, 9, 1, 0}, 8);
    add(16, 0, 3, 263, f32, {0, 16, 1, 0}, 8);
    return all;
  }();
  return cases;
}
const std::deque<LinearCase> &allFloatCases = floatCases();

TEST(Tile, Float) {
  for (const LinearCase &c : allFloatCases)
    c.run();
}

const std::deque<ExpertCase> &expertCases() {
  static const std::deque<ExpertCase> cases = [] {
    std::deque<ExpertCase> all;
    auto add = [&](int64_t capacity, int64_t experts, int64_t used, int64_t out,
                   int64_t in, WeightFormat format, Step step) {
      all.emplace_back(capacity, experts, used, out, in, format, true, step,
                       kColumns, true, kTarget, WeightLayout::lanes);
    };
    // More pairs of an expert than a tile has, fewer, none.
    add(60, 3, 4, 40, 256, q2_0_rocmfp2, {4, 59, 1, 0});
    add(30, 40, 2, 66, 256, q3_1_rocmfp3_mix, {0, 29, 1, 0});
    add(12, 6, 3, 64, 1024, q2_1_rocmfp2_mix, {0, 12, 1, 0});
    // More pairs than a block has threads.
    add(300, 9, 3, 5, 256, q4_0_rocmfp4_fast, {0, 300, 1, 0});
    return all;
  }();
  return cases;
}
const std::deque<ExpertCase> &allExpertCases = expertCases();

TEST(Tile, Experts) {
  for (const ExpertCase &c : allExpertCases)
    c.run();
}

} // namespace
