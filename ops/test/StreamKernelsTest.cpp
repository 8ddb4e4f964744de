// Kernels of the residual streams and norms against the oracle, bit for bit:
// the sizes of DeepSeek V4 Flash, small ones and uneven ones.
#include "ops/Reference.h"
#include "ops/test/KernelHarness.h"
#include "ops/test/RandomFloats.h"

#include <fmt/format.h>

#include <algorithm>

using namespace ds4;
using namespace ds4::test;

namespace {

/// A weight of `rows` x `columns` values of about the given size.
std::vector<uint8_t> weightBytes(Random &random, WeightFormat format,
                                 uint64_t rows, uint64_t columns, float scale) {
  if (format == WeightFormat::f32) {
    const std::vector<float> values = random.floats(rows * columns, scale);
    const auto bytes = bytesOf(values);
    return {bytes.begin(), bytes.end()};
  }
  // q8_0: an f16 scale of 2^-10 .. 2^-9 and 32 codes a block.
  std::vector<uint8_t> bytes =
      random.bytes(rows * weightRowBytes(format, columns));
  for (size_t block = 0; block < bytes.size(); block += 34)
    bytes[block + 1] = 0x14 | (bytes[block + 1] & 1);
  return bytes;
}

struct StreamCase {
  int64_t rows, streams, hidden;
  WeightFormat format;
  std::vector<Step> steps;

  std::string fn(int64_t mixes) const {
    return weight({mixes, streams * hidden},
                  format == WeightFormat::f32 ? "f32" : "q8_0");
  }
  std::string x() const { return tensor({rows, streams, hidden}); }
  int64_t mixes() const { return (2 + streams) * streams; }

  Kernel pre{"ds4.hc_pre %0, %1, %2, %3 eps 1.0e-6, 1.0e-6 iterations 20",
             {x(), fn(mixes()), weight({3}), weight({mixes()})},
             {tensor({rows, hidden}), tensor({rows, streams}),
              tensor({rows, streams, streams})}};
  Kernel post{"ds4.hc_post %0, %1, %2, %3",
              {tensor({rows, hidden}), x(), tensor({rows, streams}),
               tensor({rows, streams, streams})},
              {x()}};
  Kernel head{"ds4.head_collapse %0, %1, %2, %3 eps 1.0e-6, 1.0e-6",
              {x(), fn(streams), weight({1}), weight({streams})},
              {tensor({rows, hidden})}};
  Kernel take{"ds4.take_outputs %0", {x()}, {x()}};
};

const StreamCase streamCases[] = {
    {2, 4, 4096, WeightFormat::f32, {{7, 2, 1, 0}}},
    {5, 4, 256, WeightFormat::f32, {{0, 3, 2, 0}}},
    {3, 2, 48, WeightFormat::q8_0, {{11, 3, 3, 0}}},
    {1, 1, 33, WeightFormat::f32, {{0, 1, 1, 0}}},
    {4, 3, 1056, WeightFormat::q8_0, {{5, 4, 0, 0}}},
    // Long steps, of whole and of broken groups of rows.
    {16, 4, 256, WeightFormat::q8_0, {{0, 16, 1, 0}, {3, 11, 1, 0}}},
    {24, 2, 128, WeightFormat::f32, {{1, 17, 1, 0}}},
    {16, 3, 512, WeightFormat::f32, {{1, 1, 1, 0}}},
};

TEST(StreamKernels, HcPre) {
  for (const StreamCase &c : streamCases)
    for (const Step &step : c.steps) {
      SCOPED_TRACE(fmt::format("{} streams of {}", c.streams, c.hidden));
      Random random(c.hidden);
      const uint64_t n = step.count, m = c.streams, d = c.hidden;
      const auto x = random.floats(n * m * d, 2);
      const auto fn = weightBytes(random, c.format, c.mixes(), m * d, 0.05f);
      const auto scale = random.floats(3);
      const auto base = random.floats(c.mixes());
      std::vector<float> y(n * d), post(n * m), comb(n * m * m);
      auto refY = y, refPost = post, refComb = comb;
      ref::hcPre({m, d, 1e-6f, 1e-6f, 20}, x, {c.format, fn, m * d}, scale,
                 base, refY, refPost, refComb);
      c.pre.run(step, {in(x), in(fn), in(scale), in(base), out(y), out(post),
                       out(comb)});
      expectSameBits(refPost, post, "post");
      expectSameBits(refComb, comb, "comb");
      expectSameBits(refY, y, "x");
    }
}

TEST(StreamKernels, HcPost) {
  for (const StreamCase &c : streamCases)
    for (const Step &step : c.steps) {
      SCOPED_TRACE(fmt::format("{} streams of {}", c.streams, c.hidden));
      Random random(c.hidden);
      const uint64_t n = step.count, m = c.streams, d = c.hidden;
      const auto y = random.floats(n * d), x = random.floats(n * m * d);
      const auto post = random.floats(n * m), comb = random.floats(n * m * m);
      std::vector<float> result(n * m * d), expected = result;
      ref::hcPost(m, d, y, x, post, comb, expected);
      c.post.run(step, {in(y), in(x), in(post), in(comb), out(result)});
      expectSameBits(expected, result, "result");
    }
}

TEST(StreamKernels, HeadCollapse) {
  for (const StreamCase &c : streamCases)
    for (const Step &step : c.steps) {
      SCOPED_TRACE(fmt::format("{} streams of {}", c.streams, c.hidden));
      Random random(c.hidden);
      const uint64_t n = step.outputs, m = c.streams, d = c.hidden;
      const auto x = random.floats(n * m * d, 2);
      const auto fn = weightBytes(random, c.format, m, m * d, 0.05f);
      const auto scale = random.floats(1), base = random.floats(m);
      std::vector<float> result(n * d), expected = result;
      ref::headCollapse({m, d, 1e-6f, 1e-6f, 0}, x, {c.format, fn, m * d},
                        scale, base, expected);
      c.head.run(step, {in(x), in(fn), in(scale), in(base), out(result)});
      expectSameBits(expected, result, "result");
    }
}

TEST(StreamKernels, TakeOutputs) {
  for (const StreamCase &c : streamCases)
    for (const Step &step : c.steps) {
      SCOPED_TRACE(fmt::format("{} streams of {}", c.streams, c.hidden));
      Random random(c.hidden);
      const uint64_t elements = c.streams * c.hidden;
      const auto x = random.floats(step.count * elements);
      std::vector<float> result(step.outputs * elements), expected = result;
      ref::takeOutputs(step, elements, x, expected);
      c.take.run(step, {in(x), out(result)});
      expectSameBits(expected, result, "result");
    }
}

/// A site between two sublayers, from hc_post to what the next one reads.
struct SiteCase {
  int64_t rows, streams, hidden;
  Step step;

  Kernel kernel;

  SiteCase(int64_t rows, int64_t streams, int64_t hidden, Step step)
      : rows(rows), streams(streams), hidden(hidden), step(step),
        kernel(fmt::format(
                   "ds4.launch \"site\" : {0}, {1}, {2}, {3}, !ds4.q8<{4}x{5}> "
                   "{{\n"
                   "%s = ds4.hc_post %0, %1, %2, %3 : ({1}, {0}, {2}, {3}) -> "
                   "{0}\n"
                   "%x, %p, %c = ds4.hc_pre %s, %4, %5, %6 eps 1.0e-6, 2.0e-6 "
                   "iterations 20 : ({0}, {6}, {7}, {8}) -> ({1}, {2}, {3})\n"
                   "%n = ds4.rms_norm %x, %7 eps 3.0e-6 : ({1}, {9}) -> {1}\n"
                   "%q = ds4.quantize %n : ({1}) -> !ds4.q8<{4}x{5}>\n"
                   "ds4.yield %s, %n, %p, %c, %q : {0}, {1}, {2}, {3}, "
                   "!ds4.q8<{4}x{5}>\n}}",
                   tensor({rows, streams, hidden}), tensor({rows, hidden}),
                   tensor({rows, streams}), tensor({rows, streams, streams}),
                   rows, hidden, weight({mixes(), streams * hidden}),
                   weight({3}), weight({mixes()}), weight({hidden})),
               {tensor({rows, hidden}), tensor({rows, streams, hidden}),
                tensor({rows, streams}), tensor({rows, streams, streams}),
                weight({mixes(), streams * hidden}), weight({3}),
                weight({mixes()}), weight({hidden})},
               {tensor({rows, streams, hidden}), tensor({rows, hidden}),
                tensor({rows, streams}), tensor({rows, streams, streams}),
                "!ds4.q8"}) {}

  int64_t mixes() const { return (2 + streams) * streams; }
};
const SiteCase siteCases[] = {
    {1, 4, 4096, {7, 1, 1, 0}},
    {5, 4, 256, {0, 3, 1, 0}},
    {2, 3, 512, {0, 2, 1, 0}},
    {1, 4, 96, {0, 1, 1, 0}},
};

TEST(StreamKernels, Site) {
  for (const SiteCase &c : siteCases) {
    SCOPED_TRACE(fmt::format("{} streams of {}", c.streams, c.hidden));
    Random random(c.hidden);
    const uint64_t n = c.step.count, m = c.streams, d = c.hidden;
    const auto y = random.floats(n * d), x = random.floats(n * m * d, 2);
    const auto post = random.floats(n * m), comb = random.floats(n * m * m);
    const auto fn =
        weightBytes(random, WeightFormat::f32, c.mixes(), m * d, 0.05f);
    const auto scale = random.floats(3), base = random.floats(c.mixes());
    const auto gain = random.floats(d);
    std::vector<float> streams(n * m * d), input(n * d), nextPost(n * m),
        nextComb(n * m * m), normed(n * d);
    auto refStreams = streams, refInput = input, refPost = nextPost,
         refComb = nextComb, refNormed = normed;
    ref::hcPost(m, d, y, x, post, comb, refStreams);
    ref::hcPre({m, d, 1e-6f, 2e-6f, 20}, refStreams,
               {WeightFormat::f32, fn, m * d}, scale, base, refInput, refPost,
               refComb);
    ref::rmsNorm(d, refInput, gain, 3e-6f, refNormed);
    const ref::Q8 refCodes = ref::quantize(d, refNormed);
    std::vector<uint8_t> codes(refCodes.bytes.size());
    c.kernel.run(c.step,
                 {in(y), in(x), in(post), in(comb), out(streams), in(fn),
                  in(scale), in(base), out(input), out(nextPost), out(nextComb),
                  in(gain), out(normed), out(codes)});
    expectSameBits(refStreams, streams, "streams");
    expectSameBits(refPost, nextPost, "post");
    expectSameBits(refComb, nextComb, "comb");
    expectSameBits(refNormed, normed, "normed");
    expectSameBits(refCodes.bytes, codes, "codes");
  }
}

struct NormCase {
  int64_t rows, vectors, width;
  bool gain;
  RowRatio ratio;
  std::vector<Step> steps;

  std::string x() const {
    return vectors == 1 ? tensor({rows, width})
                        : tensor({rows, vectors, width});
  }
  Kernel kernel{
      fmt::format("ds4.rms_norm %0{} eps 1.0e-6{}", gain ? ", %1" : "",
                  ratio == 0   ? " {rows = #ds4.rows<outputs>}"
                  : ratio == 1 ? ""
                               : fmt::format(" {{rows = "
                                             "#ds4.rows<windows {}>}}",
                                             ratio)),
      gain ? std::vector{x(), weight({width})} : std::vector{x()},
      {x()}};
};

const NormCase normCases[] = {
    {16, 1, 4096, true, 1, {{3, 16, 1, 0}}},
    {1, 64, 512, false, 1, {{3, 1, 1, 0}}},
    {5, 1, 256, true, 1, {{0, 3, 1, 0}}},
    {3, 7, 100, true, 1, {{0, 3, 1, 0}}},
    {2, 1, 1, false, 1, {{9, 2, 1, 0}}},
    {16, 1, 2999, true, 1, {{9, 16, 1, 0}}},
    {2, 1, 512, true, 4, {{3, 6, 1, 0}}},
    {2, 1, 512, true, 4, {{3, 4, 1, 0}}},
    {3, 1, 320, true, 0, {{3, 4, 2, 0}}},
};

TEST(StreamKernels, RmsNorm) {
  for (const NormCase &c : normCases)
    for (const Step &step : c.steps) {
      SCOPED_TRACE(
          fmt::format("{} x {}, ratio {}", c.vectors, c.width, c.ratio));
      Random random(c.width);
      const uint64_t n = rowsInStep(c.ratio, step) * c.vectors * c.width;
      const auto x = random.floats(n, 3), gain = random.floats(c.width);
      std::vector<float> result(n), expected = result;
      ref::rmsNorm(c.width, x, c.gain ? ref::Floats(gain) : ref::Floats(),
                   1e-6f, expected);
      c.kernel.run(step, {in(x), c.gain ? in(gain) : none(), out(result)});
      expectSameBits(expected, result, "result");
    }
}

} // namespace
