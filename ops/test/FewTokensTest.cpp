// How GPUs do products in steps of few tokens, against the oracle, bit for bit:
// rows of int8 products by all lanes of a wave (ops/layouts/row_parts.h), those
// of f32 by all waves of a block (ops/spread_rows.h), for one vector and for
// several that share what is decoded. The widths of DeepSeek V4 Flash.
#include "ops/test/LinearCases.h"

using namespace ds4;
using namespace ds4::test;
using enum WeightFormat;

namespace {

const std::deque<LinearCase> &linearCases() {
  static const std::deque<LinearCase> cases = [] {
    std::deque<LinearCase> all;
    auto add = [&](int64_t shared, int64_t groups, int64_t out, int64_t in,
                   WeightFormat format, bool int8, int32_t count) {
      all.emplace_back(shared, groups, out, in, format, int8,
                       Step{5, count, 1, 0}, 1, shared, "host",
                       int8 ? WeightLayout::lanes : WeightLayout::file);
    };
    for (int64_t shared : {1, 5, 8}) {
      const auto count = static_cast<int32_t>(std::min<int64_t>(shared, 4));
      // Parts of one to eight blocks; those of three have no aligned scales,
      // and of eight not all vectors fit into LDS.
      for (int64_t in : {1024, 2048, 3072, 4096, 8192})
        add(shared, 0, 16, in, q4_0_rocmfp4_fast, true, count);
      for (WeightFormat format :
           {q3_0_rocmfpx, q2_1_rocmfp2_mix, q3_1_rocmfp3_mix, q8_0})
        add(shared, 0, 16, 2048, format, true, count);
      add(shared, 0, 16, 8192, q6_K, true, count); // decoded by its bytes
      add(shared, 3, 16, 1024, q2_0_rocmfp2, true, count);
      for (WeightFormat format : {f32, f16, q4_0_rocmfp4_fast, q8_0, q6_K})
        add(shared, 0, 16, 4096, format, false, count);
      add(shared, 0, 8, 768, f32, false, count);
    }
    // Every number of vectors, some of them at once.
    for (int32_t count : {1, 2, 6, 7, 8})
      add(8, 0, 8, 8192, q4_0_rocmfp4_fast, true, count);
    add(8, 2, 8, 512, bf16, false, 8);
    return all;
  }();
  return cases;
}
// Declares the kernels before the first test runs.
const std::deque<LinearCase> &allLinearCases = linearCases();

TEST(FewTokens, Linear) {
  for (const LinearCase &c : allLinearCases)
    c.run();
}

const std::deque<ExpertCase> &expertCases() {
  static const std::deque<ExpertCase> cases = [] {
    std::deque<ExpertCase> all;
    auto add = [&](int64_t shared, int64_t experts, int64_t used, int64_t out,
                   int64_t in, WeightFormat format, int32_t count) {
      all.emplace_back(shared, experts, used, out, in, format, true,
                       Step{5, count, 1, 0}, shared, false, "host",
                       WeightLayout::lanes);
    };
    // Experts that one token uses and several do; more pairs of an expert than
    // vectors share it.
    add(1, 9, 3, 16, 1024, q2_1_rocmfp2_mix, 1);
    add(5, 9, 3, 16, 1024, q2_1_rocmfp2_mix, 4);
    add(5, 40, 6, 16, 2048, q3_1_rocmfp3_mix, 5);
    add(8, 2, 3, 16, 1024, q4_0_rocmfp4_fast, 8);
    add(4, 3, 2, 16, 4096, q2_0_rocmfp2, 3);
    return all;
  }();
  return cases;
}
const std::deque<ExpertCase> &allExpertCases = expertCases();

TEST(FewTokens, Experts) {
  for (const ExpertCase &c : allExpertCases)
    c.run();
}

} // namespace
