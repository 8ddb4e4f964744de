// Kernels that prepare rows and put them into caches, against the oracle, bit
// for bit: rope, Hadamard, simulated quantisation, append, compressor.
#include "ops/Reference.h"
#include "ops/test/KernelHarness.h"
#include "ops/test/RandomFloats.h"
#include "ops/test/States.h"

#include <fmt/format.h>

using namespace ds4;
using namespace ds4::test;

namespace {

std::string windows(RowRatio ratio) {
  return ratio == 1 ? ""
                    : fmt::format(" {{rows = #ds4.rows<windows {}>}}", ratio);
}

struct RopeCase {
  int64_t rows, vectors, width, dims;
  bool inverse;
  RowRatio ratio;
  std::vector<Step> steps;

  std::string x() const { return tensor({rows, vectors, width}); }
  Kernel kernel{fmt::format("ds4.rope %0, %1{}{}", inverse ? " inverse" : "",
                            windows(ratio)),
                {x(), tensor({256, dims})},
                {x()}};
};
const RopeCase ropeCases[] = {
    {1, 64, 512, 64, false, 1, {{200, 1, 1, 0}}},
    {4, 8, 128, 64, true, 1, {{0, 3, 1, 0}}},
    {2, 1, 7, 4, true, 1, {{9, 2, 1, 0}}},
    {1, 3, 6, 6, false, 1, {{9, 1, 1, 0}}},
    {3, 1, 512, 64, false, 4, {{6, 9, 1, 0}}},
    {1, 1, 512, 64, false, 128, {{127, 1, 1, 0}}},
};

TEST(CacheKernels, Rope) {
  for (const RopeCase &c : ropeCases)
    for (const Step &step : c.steps) {
      SCOPED_TRACE(
          fmt::format("{} x {}, {} turned", c.vectors, c.width, c.dims));
      Random random(c.width);
      const ref::Rows rows{c.ratio, step};
      const auto x = random.floats(rows.count() * c.vectors * c.width);
      const auto table = random.floats(256 * c.dims);
      std::vector<float> result(x.size()), expected = result;
      ref::rope(rows, c.width, c.dims, c.inverse, x, table, expected);
      c.kernel.run(step, {in(x), in(table), out(result)});
      expectSameBits(expected, result, "result");
    }
}

struct HadamardCase {
  int64_t rows, vectors, width;
  std::vector<Step> steps;

  std::string x() const { return tensor({rows, vectors, width}); }
  Kernel kernel{"ds4.hadamard %0", {x()}, {x()}};
};
const HadamardCase hadamardCases[] = {
    {1, 64, 128, {{9, 1, 1, 0}}}, {3, 8, 32, {{0, 2, 1, 0}}},
    {2, 5, 512, {{0, 2, 1, 0}}},  {2, 3, 1, {{0, 2, 1, 0}}},
    {2, 9, 2, {{0, 2, 1, 0}}},    {1, 1, 4096, {{0, 1, 1, 0}}},
};

TEST(CacheKernels, Hadamard) {
  for (const HadamardCase &c : hadamardCases)
    for (const Step &step : c.steps) {
      SCOPED_TRACE(fmt::format("{} x {}", c.vectors, c.width));
      Random random(c.width);
      const auto x = random.floats(step.count * c.vectors * c.width);
      std::vector<float> result(x.size()), expected = result;
      ref::hadamard(c.width, x, expected);
      c.kernel.run(step, {in(x), out(result)});
      expectSameBits(expected, result, "result");
    }
}

/// Values of every magnitude that a block may meet: zeros, one block in a few
/// with tiny or huge numbers.
std::vector<float> wideFloats(Random &random, uint64_t count) {
  std::vector<float> values = random.floats(count);
  const float scales[] = {1, 0, 1e-6f, 1e-38f, 3e4f, 0x1p-9f};
  float scale = 1;
  for (uint64_t i = 0; i < count; ++i) {
    if (i % 32 == 0)
      scale = scales[random.below(6)];
    values[i] *= scale;
  }
  return values;
}

struct SimulateCase {
  int64_t rows, vectors, size, width;
  bool fp4;
  std::vector<Step> steps;

  std::string x() const { return tensor({rows, vectors, size}); }
  Kernel kernel{
      fmt::format("ds4.simulate %0 {} width {}", fp4 ? "fp4" : "fp8", width),
      {x()},
      {x()}};
};
const SimulateCase simulateCases[] = {
    {2, 1, 512, 448, false, {{9, 2, 1, 0}}},
    {1, 64, 128, 128, true, {{9, 1, 1, 0}}},
    {3, 8, 32, 32, true, {{0, 2, 1, 0}}},
    {2, 3, 100, 64, false, {{0, 2, 1, 0}}},
    {2, 5, 70, 32, true, {{0, 2, 1, 0}}},
    {2, 1, 128, 64, false, {{0, 1, 1, 0}}},
};

TEST(CacheKernels, Simulate) {
  for (const SimulateCase &c : simulateCases)
    for (const Step &step : c.steps) {
      SCOPED_TRACE(fmt::format("{} of {} x {}", c.width, c.vectors, c.size));
      Random random(c.size);
      const auto x = wideFloats(random, step.count * c.vectors * c.size);
      std::vector<float> result(x.size()), expected = result;
      ref::simulate(c.fp4 ? ref::SimulateMode::fp4 : ref::SimulateMode::fp8,
                    c.size, c.width, x, expected);
      c.kernel.run(step, {in(x), out(result)});
      expectSameBits(expected, result, "result");
    }
}

struct RowCase {
  int64_t rows, width, stateRows;
  ref::RowStorage storage;
  RowRatio ratio;
  std::vector<Step> steps;

  std::string x() const { return tensor({rows, width}); }
  std::string cache() const {
    return state(stateRows, width, storageName(storage));
  }
  Kernel round{fmt::format("ds4.round_row %0 {}{}", storageName(storage),
                           windows(ratio)),
               {x()},
               {x()}};
  Kernel append{
      fmt::format("ds4.append %0, %1{} : {}, {}", windows(ratio), x(), cache()),
      {x(), cache()},
      {}};
};
using enum ref::RowStorage;
const std::vector<Step> ringSteps = {
    {0, 1, 1, 0}, {0, 5, 1, 0}, {14, 5, 1, 0}, {1000, 20, 1, 0}};
const std::vector<Step> windowSteps = {
    {0, 3, 1, 0}, {0, 4, 1, 0}, {3, 17, 1, 0}, {31, 20, 1, 0}};
const RowCase rowCases[] = {
    // The sizes of Flash: raw rows, compressed rows, index keys.
    {20, 512, 256, fp8, 1, {{250, 12, 1, 0}, {0, 20, 1, 0}}},
    {5, 512, 32768, fp8, 4, {{131052, 20, 1, 0}}},
    {5, 128, 64, fp4, 4, windowSteps},
    {20, 128, 16, fp8, 1, ringSteps},
    {20, 96, 16, fp4, 1, ringSteps},
    {20, 128, 16, f16, 1, ringSteps},
    {20, 7, 16, f16, 1, ringSteps},
    {20, 100, 16, f32, 1, ringSteps},
    // Fewer slots than rows in a step.
    {20, 32, 3, fp4, 1, ringSteps},
    {20, 33, 1, f32, 1, ringSteps},
    {5, 128, 2, f16, 4, windowSteps},
};

TEST(CacheKernels, RoundRowAndAppend) {
  for (const RowCase &c : rowCases)
    for (const Step &step : c.steps) {
      SCOPED_TRACE(fmt::format("{} {} in {} rows, {} + {}", c.width,
                               storageName(c.storage), c.stateRows, step.start,
                               step.count));
      Random random(c.width);
      const ref::Rows rows{c.ratio, step};
      std::vector<float> x = wideFloats(random, rows.count() * c.width);
      // binary16 overflows; the cache has no use for infinities.
      if (c.storage == f16)
        for (float &value : x)
          value = std::clamp(value, -60000.0f, 60000.0f);
      std::vector<float> rounded(x.size()), expected = rounded;
      ref::roundRow(c.storage, c.width, x, expected);
      c.round.run(step, {in(x), out(rounded)});
      expectSameBits(expected, rounded, "round_row");

      ref::State cache(c.stateRows, c.width, c.storage);
      std::vector<uint8_t> bytes = cache.bytes;
      ref::append(rows, rounded, cache);
      c.append.run(step, {in(rounded), inOut(bytes)});
      expectSameBits(cache.bytes, bytes, "append");
    }
}

struct ApeCase {
  int64_t rows, channels, period;
  const char *format;
  std::vector<Step> steps;
  Kernel kernel{"ds4.ape_add %0, %1",
                {tensor({rows, channels}), weight({period, channels}, format)},
                {tensor({rows, channels})}};
};
const ApeCase apeCases[] = {
    {9, 1024, 4, "f32", {{2, 9, 1, 0}}},
    {1, 512, 128, "f16", {{127, 1, 1, 0}}},
    {3, 33, 4, "f32", {{5, 2, 1, 0}}},
};

TEST(CacheKernels, ApeAdd) {
  for (const ApeCase &c : apeCases)
    for (const Step &step : c.steps) {
      SCOPED_TRACE(fmt::format("{} x {}", c.period, c.channels));
      Random random(c.channels);
      const auto gate = random.floats(step.count * c.channels);
      const auto format = *weightFormatFromName(c.format);
      std::vector<uint8_t> ape =
          random.bytes(c.period * weightRowBytes(format, c.channels));
      // Clear a bit of each exponent: no NaN.
      for (size_t i = 1; i < ape.size(); i += 2)
        ape[i] &= 0xbf;
      std::vector<float> result(gate.size()), expected = result;
      ref::apeAdd(step, gate, {format, ape, uint64_t(c.channels)}, expected);
      c.kernel.run(step, {in(gate), in(ape), out(result)});
      expectSameBits(expected, result, "result");
    }
}

struct CompressCase {
  int64_t rows, width, ratio, kvRows, gateRows;
  bool overlap;
  std::vector<Step> steps;

  int64_t channels() const { return overlap ? 2 * width : width; }
  int64_t windowRows() const { return (rows + ratio - 1) / ratio; }
  std::string x() const { return tensor({rows, channels()}); }
  Kernel kernel{fmt::format("ds4.compress %0, %1, %2, %3 ratio {}{}", ratio,
                            overlap ? " overlap" : ""),
                {x(), x(), state(kvRows, channels(), "f32"),
                 state(gateRows, channels(), "f32")},
                {tensor({windowRows(), width})}};
};
const CompressCase compressCases[] = {
    {8,
     512,
     4,
     16,
     16,
     true,
     {{0, 3, 1, 0},
      {0, 4, 1, 0},
      {0, 8, 1, 0},
      {1, 7, 1, 0},
      {4, 4, 1, 0},
      {6, 6, 1, 0},
      {13, 8, 1, 0},
      {131069, 3, 1, 0}}},
    {1,
     512,
     128,
     256,
     256,
     false,
     {{127, 1, 1, 0}, {126, 1, 1, 0}, {767, 1, 1, 0}}},
    {5, 36, 2, 3, 5, true, {{0, 5, 1, 0}, {7, 4, 1, 0}, {7, 5, 1, 0}}},
    {9, 33, 3, 2, 4, false, {{0, 9, 1, 0}, {7, 8, 1, 0}, {4, 1, 1, 0}}},
    {300, 64, 128, 256, 127, false, {{0, 300, 1, 0}, {130, 300, 1, 0}}},
};

TEST(CacheKernels, Compress) {
  for (const CompressCase &c : compressCases)
    for (const Step &step : c.steps) {
      SCOPED_TRACE(fmt::format("{} ratio {}, {} + {}", c.width, c.ratio,
                               step.start, step.count));
      Random random(c.width + step.start);
      const uint64_t channels = c.channels();
      const auto kv = random.floats(step.count * channels);
      const auto gate = random.floats(step.count * channels, 4);
      const auto kvRing = ringBefore(random, c.kvRows, channels, f32, step);
      const auto gateRing = ringBefore(random, c.gateRows, channels, f32, step);
      std::vector<float> result(rowsInStep(c.ratio, step) * c.width);
      auto expected = result;
      ref::compress(step, c.ratio, c.overlap, kv, gate, kvRing, gateRing,
                    expected);
      c.kernel.run(step, {in(kv), in(gate), in(kvRing.bytes),
                          in(gateRing.bytes), out(result)});
      expectSameBits(expected, result, "result");
    }
}

/// A product and what is done to each of its vectors: on a GPU by the last of
/// the blocks that a vector's rows are spread over.
struct HeadsCase {
  int64_t heads, width, in;

  Kernel kernel;

  HeadsCase(int64_t heads, int64_t width, int64_t in)
      : heads(heads), width(width), in(in),
        kernel(
            fmt::format("ds4.launch \"heads\" : {1}, {1} {{\n"
                        "%y = ds4.linear %0, %1 : ({2}, {3}) -> {0}\n"
                        "%h = ds4.reshape %y : ({0}) -> {1}\n"
                        "%n = ds4.rms_norm %h eps 1.0e-6 : ({1}) -> {1}\n"
                        "%t = ds4.rope %n, %2 : ({1}, {4}) -> {1}\n"
                        "%w = ds4.hadamard %t : ({1}) -> {1}\n"
                        "%f = ds4.simulate %w fp4 width {5} : ({1}) -> {1}\n"
                        "ds4.yield %t, %f : {1}, {1}\n}}",
                        tensor({1, heads * width}), tensor({1, heads, width}),
                        tensor({1, in}), weight({heads * width, in}),
                        tensor({256, 32}), width),
            {tensor({1, in}), weight({heads * width, in}), tensor({256, 32})},
            {tensor({1, heads, width}), tensor({1, heads, width})}) {}
};
const HeadsCase headsCases[] = {{4, 64, 96}, {64, 128, 32}, {1, 64, 32}};

TEST(CacheKernels, Heads) {
  for (const HeadsCase &c : headsCases) {
    SCOPED_TRACE(fmt::format("{} x {}", c.heads, c.width));
    Random random(c.heads);
    const Step step{9, 1, 1, 0};
    const auto x = random.floats(c.in);
    const auto w = random.floats(c.heads * c.width * c.in);
    const auto table = random.floats(256 * 32);
    std::vector<float> product(c.heads * c.width), normed(product.size()),
        turned(product.size()), spread(product.size()), result(product.size());
    auto y = product, n = product, t = product, h = product, f = product;
    const auto bytes = bytesOf(w);
    ref::linear({x, static_cast<uint64_t>(c.in)},
                {WeightFormat::f32, bytes, static_cast<uint64_t>(c.in)}, y);
    ref::rmsNorm(c.width, y, {}, 1e-6f, n);
    ref::rope({1, step}, c.width, 32, false, n, table, t);
    ref::hadamard(c.width, t, h);
    ref::simulate(ref::SimulateMode::fp4, c.width, c.width, h, f);
    c.kernel.run(step, {in(x), in(w), out(product), out(normed), in(table),
                        out(turned), out(spread), out(result)});
    expectSameBits(t, turned, "rope");
    expectSameBits(f, result, "simulate");
  }
}

} // namespace
