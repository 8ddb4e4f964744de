// Kernels of embedding, quantisation, linears and experts against the oracle,
// bit for bit: every format, the sizes of DeepSeek V4 Flash, the smallest and
// uneven ones.
#include "ops/test/KernelHarness.h"
#include "ops/test/LinearCases.h"

#include <fmt/format.h>

#include <deque>

using namespace ds4;
using namespace ds4::test;
using enum WeightFormat;

namespace {

constexpr WeightFormat kInt8Formats[] = {q8_0, q6_K, q4_0_rocmfp4_fast,
                                         q3_0_rocmfpx, q2_0_rocmfp2};

//===----------------------------------------------------------------------===//
// embed, quantize
//===----------------------------------------------------------------------===//

struct EmbedCase {
  int64_t capacity, vocab, streams, hidden;
  WeightFormat format;
  Step step;
  Kernel kernel = make();

  Kernel make() const {
    return Kernel(
        "ds4.embed %0, %1",
        {tensor({capacity}, "i32"), weightOf(format, {vocab, hidden})},
        {tensor({capacity, streams, hidden})});
  }
};

const EmbedCase embedCases[] = {
    {3, 50, 4, 4096, q6_K, {9, 2, 1, 0}},
    {1, 7, 4, 256, q4_0_rocmfp4_fast, {0, 1, 1, 0}},
    {2, 9, 2, 33, f16, {0, 2, 1, 0}},
    {5, 3, 1, 1, f32, {1, 5, 1, 0}},
};

TEST(LinearKernels, Embed) {
  for (const EmbedCase &c : embedCases) {
    SCOPED_TRACE(c.hidden);
    Random random(c.hidden);
    const auto table = randomWeights(random, c.format, c.vocab, c.hidden);
    std::vector<int32_t> tokens(c.step.count);
    for (int32_t &token : tokens)
      token = static_cast<int32_t>(random.below(c.vocab));
    tokens.back() = static_cast<int32_t>(c.vocab - 1);
    std::vector<float> got(tokens.size() * c.streams * c.hidden), want = got;
    const uint64_t columns = c.hidden;
    ref::embed(tokens, {c.format, table, columns}, c.streams, want);
    c.kernel.run(c.step, {in(tokens), in(table), out(got)});
    expectSameBits(want, got, "embed");
  }
}

struct QuantizeCase {
  int64_t capacity, vectors, width;
  Step step;
  std::string rows = "tokens";
  Kernel kernel = make();

  Kernel make() const {
    return Kernel(fmt::format("ds4.quantize %0 {{rows = #ds4.rows<{}>}}", rows),
                  {tensor({capacity, vectors, width})},
                  {q8({capacity, vectors, width})});
  }
};

const QuantizeCase quantizeCases[] = {
    {2, 8, 4096, {3, 2, 1, 0}},
    {4, 3, 96, {0, 3, 1, 0}},
    {1, 1, 32, {0, 1, 1, 0}},
    {2, 2, 64, {6, 3, 1, 0}, "windows 4"},
    {3, 2, 64, {0, 5, 2, 0}, "outputs"},
};

TEST(LinearKernels, Quantize) {
  for (const QuantizeCase &c : quantizeCases) {
    SCOPED_TRACE(c.width);
    Random random(c.width);
    const RowRatio ratio = c.rows == "tokens" ? 1 : c.rows == "outputs" ? 0 : 4;
    auto x = random.floats(
        static_cast<uint64_t>(rowsInStep(ratio, c.step) * c.vectors * c.width));
    // A block of zeros, one of a single value, ties, subnormals.
    for (int i = 0; i < 32; ++i)
      x[i] = c.vectors == 1 ? i * 0.5f : i == 3 ? -3.5f : 0.0f;
    if (x.size() >= 128)
      for (int i = 0; i < 32; ++i) {
        x[32 + i] = 0.0f;
        x[64 + i] = static_cast<float>(i - 16) * 0x1p-149f;
        x[96 + i] = i == 0 ? 127.0f : static_cast<float>(i) + 0.5f;
      }
    const ref::Q8 want = ref::quantize(c.width, x);
    std::vector<uint8_t> got(want.bytes.size());
    c.kernel.run(c.step, {in(x), none(), none(), out(got)});
    expectSameBits(want.bytes, got, "quantize");
  }
}

//===----------------------------------------------------------------------===//
// rotate, and quantize that rotates
//===----------------------------------------------------------------------===//

struct RotateCase {
  int64_t capacity, used, width, experts;
  Step step;
  Kernel rotate, quantize;

  RotateCase(int64_t capacity, int64_t used, int64_t width, int64_t experts,
             Step step)
      : capacity(capacity), used(used), width(width), experts(experts),
        step(step), rotate("ds4.rotate %0 experts %1, %2", operands(),
                           {tensor({capacity, used, width})}),
        quantize("ds4.quantize %0 experts %1, %2", operands(),
                 {q8({capacity, used, width})}) {}

  std::vector<std::string> operands() const {
    return {tensor({capacity, used, width}), tensor({capacity, used}, "i32"),
            tensor({experts}, "i32")};
  }
};

const std::deque<RotateCase> &rotateCases() {
  static const std::deque<RotateCase> cases = [] {
    std::deque<RotateCase> all;
    all.emplace_back(3, 6, 2048, 256, Step{4, 2, 1, 0});
    all.emplace_back(2, 3, 96, 5, Step{0, 2, 1, 0});
    all.emplace_back(1, 1, 32, 1, Step{0, 1, 1, 0});
    return all;
  }();
  return cases;
}
const std::deque<RotateCase> &allRotateCases = rotateCases();

TEST(LinearKernels, RotateAndQuantize) {
  for (const RotateCase &c : allRotateCases) {
    SCOPED_TRACE(c.width);
    Random random(c.width);
    const uint64_t vectors = c.step.count * c.used, width = c.width;
    const auto x = random.floats(vectors * width, 2);
    std::vector<int32_t> experts(vectors), rotations(c.experts);
    for (int32_t &expert : experts)
      expert = static_cast<int32_t>(random.below(c.experts));
    for (size_t e = 0; e < rotations.size(); ++e)
      rotations[e] = e % 2 == 0;
    // An expert of either kind.
    experts.front() = 0;
    experts.back() = c.experts > 1 ? 1 : 0;

    std::vector<float> want(x.size()), got(x.size());
    ref::rotate(width, x, experts, rotations, want);
    c.rotate.run(c.step, {in(x), in(experts), in(rotations), out(got)});
    expectSameBits(want, got, "rotate");

    const ref::Q8 wantCodes = ref::quantize(width, want);
    std::vector<uint8_t> codes(wantCodes.bytes.size());
    c.quantize.run(c.step, {in(x), in(experts), in(rotations), out(codes)});
    expectSameBits(wantCodes.bytes, codes, "quantize");
  }
}

//===----------------------------------------------------------------------===//
// linear, grouped_linear
//===----------------------------------------------------------------------===//

/// Every format with every kind of activations it may meet.
const std::deque<LinearCase> &linearCases() {
  static const std::deque<LinearCase> cases = [] {
    std::deque<LinearCase> all;
    for (WeightFormat format : {f32, f16, bf16}) {
      all.emplace_back(3, 0, 24, 16384, format, false, Step{5, 2, 1, 0});
      all.emplace_back(2, 0, 256, 256, format, false, Step{0, 2, 1, 0});
      all.emplace_back(1, 0, 1, 1, format, false, Step{0, 1, 1, 0});
      all.emplace_back(2, 0, 9, 263, format, false, Step{0, 2, 1, 0});
      all.emplace_back(2, 3, 7, 31, format, false, Step{0, 1, 1, 0});
    }
    for (WeightFormat format : kInt8Formats)
      for (bool int8 : {false, true}) {
        const int64_t block = weightFormatInfo(format).blockElements;
        all.emplace_back(3, 0, 64, 4096, format, int8, Step{5, 3, 1, 0});
        all.emplace_back(2, 0, 33, 3 * block, format, int8, Step{0, 1, 1, 0});
        all.emplace_back(2, 3, 5, 11 * block, format, int8, Step{2, 2, 1, 0});
        if (!int8)
          continue;
        all.emplace_back(2, 0, 100, 256, format, int8, Step{0, 2, 1, 0});
        all.emplace_back(1, 0, 1, block, format, int8, Step{0, 1, 1, 0});
        all.emplace_back(2, 8, 40, 512, format, int8, Step{0, 2, 1, 0});
      }
    // Rows that share a weight: whole groups of them, the last one not full,
    // fewer than a group.
    for (WeightFormat format :
         {q8_0, q6_K, q2_0_rocmfp2, q2_1_rocmfp2_mix, f16})
      for (bool int8 : {false, true}) {
        if (int8 && format == f16)
          continue;
        all.emplace_back(8, 0, 70, 1024, format, int8, Step{5, 8, 1, 0}, 1, 8);
        all.emplace_back(11, 0, 33, 512, format, int8, Step{0, 11, 1, 0}, 1, 4);
        all.emplace_back(3, 3, 5, 256, format, int8, Step{2, 2, 1, 0}, 1, 3);
        all.emplace_back(8, 0, 9, 256, format, int8, Step{0, 3, 1, 0}, 1, 8);
      }
    all.emplace_back(6, 0, 50, 96, q8_0, true, Step{3, 9, 5, 0}, 0, 5);
    for (WeightFormat format : {q3_1_rocmfp3_mix, q2_1_rocmfp2_mix})
      for (bool int8 : {false, true}) {
        all.emplace_back(3, 0, 40, 1024, format, int8, Step{5, 3, 1, 0});
        all.emplace_back(2, 8, 9, 128, format, int8, Step{2, 2, 1, 0});
      }
    all.emplace_back(4, 0, 50, 96, q8_0, true, Step{3, 9, 1, 0}, 4);
    all.emplace_back(3, 0, 50, 96, q8_0, false, Step{3, 9, 2, 0}, 0);
    return all;
  }();
  return cases;
}
// Declares the kernels before the first test runs.
const std::deque<LinearCase> &allLinearCases = linearCases();

TEST(LinearKernels, Linear) {
  for (const LinearCase &c : allLinearCases)
    if (!c.groups)
      c.run();
}

TEST(LinearKernels, GroupedLinear) {
  for (const LinearCase &c : allLinearCases)
    if (c.groups)
      c.run();
}

//===----------------------------------------------------------------------===//
// expert_gate_up, expert_down
//===----------------------------------------------------------------------===//

const std::deque<ExpertCase> &expertCases() {
  static const std::deque<ExpertCase> cases = [] {
    std::deque<ExpertCase> all;
    for (WeightFormat format : kInt8Formats)
      for (bool int8 : {false, true}) {
        const int64_t block = weightFormatInfo(format).blockElements;
        all.emplace_back(2, 5, 3, 70, 256, format, int8, Step{4, 2, 1, 0});
        all.emplace_back(1, 2, 2, 3, block, format, int8, Step{0, 1, 1, 0});
      }
    for (WeightFormat format : {q3_1_rocmfp3_mix, q2_1_rocmfp2_mix})
      for (bool int8 : {false, true}) {
        all.emplace_back(3, 5, 3, 70, 256, format, int8, Step{4, 2, 1, 0});
        all.emplace_back(1, 2, 2, 3, 128, format, int8, Step{0, 1, 1, 0});
      }
    // Flash: 256 experts, 6 used; fewer rows, to keep the test small.
    all.emplace_back(2, 256, 6, 8, 4096, q2_0_rocmfp2, true, Step{0, 2, 1, 0});
    all.emplace_back(2, 256, 6, 8, 2048, q3_1_rocmfp3_mix, false,
                     Step{0, 1, 1, 0});
    all.emplace_back(2, 256, 6, 8, 4096, q2_1_rocmfp2_mix, true,
                     Step{0, 2, 1, 0});
    all.emplace_back(2, 3, 2, 9, 40, f16, false, Step{0, 2, 1, 0});
    // Tokens that share experts; random lists name some twice in a token, so
    // that an expert has more pairs than a group has tokens.
    for (bool int8 : {false, true}) {
      all.emplace_back(8, 5, 3, 40, 256, q2_0_rocmfp2, int8, Step{0, 8, 1, 0},
                       8);
      all.emplace_back(9, 3, 2, 33, 256, q6_K, int8, Step{4, 9, 1, 0}, 4);
      all.emplace_back(8, 2, 3, 5, 128, q4_0_rocmfp4_fast, int8,
                       Step{0, 3, 1, 0}, 8);
    }
    for (bool int8 : {false, true})
      all.emplace_back(4, 4, 3, 24, 128, q2_1_rocmfp2_mix, int8,
                       Step{0, 4, 1, 0}, 4);
    // All pairs of an expert together: more and fewer than a wave shares, none.
    for (bool int8 : {false, true}) {
      all.emplace_back(20, 5, 3, 40, 256, q2_0_rocmfp2, int8, Step{4, 19, 1, 0},
                       8, true);
      all.emplace_back(12, 40, 2, 9, 128, q3_1_rocmfp3_mix, int8,
                       Step{0, 12, 1, 0}, 8, true);
      all.emplace_back(10, 1, 2, 33, 64, q8_0, int8, Step{0, 1, 1, 0}, 8, true);
    }
    return all;
  }();
  return cases;
}
const std::deque<ExpertCase> &allExpertCases = expertCases();

TEST(LinearKernels, Experts) {
  for (const ExpertCase &c : allExpertCases)
    c.run();
}

} // namespace
