// The oracle's weight decoders against the published decoders' vectors, bit
// for bit, and its block dot products against sums in double.
#include "ops/CodeLayout.h"
#include "ops/Reference.h"
#include "ops/prelude.h"
#include "ops/test/RandomWeights.h"
#include "ops/test/WeightVectors.h"
#include "ops/weights/grids.h"

#include <algorithm>
#include <cmath>

namespace ds4::ref {

using namespace test;
using enum WeightFormat;

namespace {

TEST(WeightsRef, DecodesTheVectors) {
  for (const WeightVectors &v : kWeightVectors) {
    SCOPED_TRACE(v.prefix);
    const std::vector<uint8_t> blocks =
        kOpsVectors.bytes(std::string(v.prefix) + "blocks.bin");
    const std::vector<float> want =
        kOpsVectors.floats(std::string(v.prefix) + "values.bin");
    const std::vector<float> books = booksOf(v);
    const uint64_t columns = want.size() / v.rows;
    const Weight weight{v.format, blocks, columns, books, 1};
    ASSERT_EQ(weight.rows(), v.rows);
    const uint64_t perExpert = books.size() / v.rows;
    int wrong = 0;
    for (uint64_t row = 0; row < v.rows; ++row) {
      const std::vector<float> got = weightRow(weight, row);
      for (uint64_t i = 0; i < columns; ++i) {
        const uint32_t bits = std::bit_cast<uint32_t>(want[row * columns + i]);
        const float one = weightAt(v.format, weight.row(row), i,
                                   books.data() + row * perExpert);
        wrong += std::bit_cast<uint32_t>(got[i]) != bits;
        wrong += std::bit_cast<uint32_t>(one) != bits;
      }
    }
    EXPECT_EQ(wrong, 0);
  }
}

TEST(WeightsRef, EveryFormatHasVectors) {
  for (const WeightFormatInfo &info : weightFormats()) {
    // Readings that no published decoder was found for are below.
    if (!info.quantised || info.format == q2_0_rocmfp2_fp2s ||
        info.format == q2_0_rocmfp2_s40)
      continue;
    EXPECT_NE(
        std::ranges::find(kWeightVectors, info.format, &WeightVectors::format),
        std::end(kWeightVectors))
        << info.name;
  }
}

TEST(WeightsRef, GridsAreThePublishedOnes) {
  const auto same = [](const char *name, const auto &grid) {
    const std::vector<uint8_t> want = kOpsVectors.bytes(name);
    ASSERT_EQ(want.size(), sizeof grid) << name;
    EXPECT_EQ(std::memcmp(want.data(), grid, sizeof grid), 0) << name;
  };
  same("iq2xxs_grid.bin", iq2xxs_grid);
  same("iq3xxs_grid.bin", iq3xxs_grid);
  same("iq3s_grid.bin", iq3s_grid);
  const std::vector<uint8_t> signs = kOpsVectors.bytes("ksigns.bin");
  for (uint32_t seven = 0; seven < 128; ++seven)
    EXPECT_EQ(signs[seven], seven | (std::popcount(seven) & 1u) << 7);
}

TEST(WeightsRef, OtherReadingsOfType107) {
  std::vector<uint8_t> block(10, 0xe4); // codes 0, 1, 2, 3
  block[8] = 0x38, block[9] = 0xb8;     // 0.5; with the sign bit
  const float levels[4] = {-1, 0, 1, 2}, s40[4] = {-4, -1, 1, 4};
  for (uint64_t i = 0; i < 32; ++i) {
    const float sign = i < 16 ? 1 : -1;
    const float value = weightAt(q2_0_rocmfp2_fp2s, block.data(), i);
    EXPECT_EQ(value, sign * levels[i % 4] * 0.5f);
    EXPECT_FALSE(value == 0.0f && std::signbit(value));
    // There the sign bit makes the scale invalid.
    EXPECT_EQ(weightAt(q2_0_rocmfp2_s40, block.data(), i),
              i < 16 ? s40[i % 4] * 0.5f : 0.0f);
  }
}

/// The published int8 dot product of a format: a block's elements are shared
/// by `lanes` lanes in runs of four ("quads").
struct Dot {
  WeightFormat format;
  const char *name;
  unsigned lanes;
  std::vector<std::vector<unsigned>> quads; ///< of each lane
};

TEST(WeightsRef, DotPartialsAreThePublishedOnes) {
  const std::vector<unsigned> all = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<std::vector<unsigned>> halves = {{0, 1, 2, 3},
                                                     {4, 5, 6, 7}};
  const std::vector<std::vector<unsigned>> pairs = {
      {0, 1}, {2, 3}, {4, 5}, {6, 7}};
  const Dot dots[] = {
      {q4_0_rocmfp4, "fp4", 1, {all}},
      {q4_0_rocmfp4_fast, "fp4_fast", 2, {{0, 1, 4, 5}, {2, 3, 6, 7}}},
      {q6_0_rocmfpx, "fp6", 2, halves},
      {q8_0_rocmfpx, "fp8", 4, pairs},
      {q3_0_rocmfpx, "fp3", 4, pairs},
      {q2_0_rocmfp2, "fp2", 2, halves},
      {q2_0_rocmfp2_affine, "fp2_affine", 2, halves}};
  const std::vector<uint8_t> act = kOpsVectors.bytes("dot.act.q8_1.bin");
  for (const Dot &dot : dots) {
    SCOPED_TRACE(dot.name);
    const std::vector<uint8_t> weights =
        kOpsVectors.bytes(std::string(dot.name) + ".dot.weights.bin");
    const std::vector<float> want =
        kOpsVectors.floats(std::string(dot.name) + ".dot.partials.bin");
    ASSERT_EQ(want.size(), 256 * dot.lanes);
    for (uint64_t block = 0; block < 256; ++block) {
      // q8_1: f16 scale, f16 sum, 32 codes.
      const uint8_t *x = act.data() + 36 * block;
      const float d = f32_from_f16(x[0] | x[1] << 8);
      const auto *codes = reinterpret_cast<const int8_t *>(x + 4);
      const WeightBlock w = weightBlock(dot.format, weights.data(), block);
      for (unsigned lane = 0; lane < dot.lanes; ++lane) {
        int products[2] = {0, 0}, sum = 0;
        for (unsigned quad : dot.quads[lane])
          for (unsigned i = 4 * quad; i < 4 * quad + 4; ++i) {
            products[i / 16] += w.level[i] * codes[i];
            sum += codes[i];
          }
        const float p0 = static_cast<float>(products[0]);
        const float p1 = static_cast<float>(products[1]);
        float got;
        if (dot.format == q2_0_rocmfp2_affine) { // levels there are code - 1
          const float s = w.scale[0], o = -w.minimum[0];
          const int j = products[0] + products[1] - sum;
          got = d *
                (s * static_cast<float>(j) + (s - o) * static_cast<float>(sum));
        } else if (w.scales == 1) {
          got = d * w.scale[0] * (p0 + p1);
        } else {
          got = d * (w.scale[0] * p0 + w.scale[1] * p1);
        }
        EXPECT_EQ(std::bit_cast<uint32_t>(got),
                  std::bit_cast<uint32_t>(want[dot.lanes * block + lane]))
            << block << " " << lane << ": " << got << " "
            << want[dot.lanes * block + lane];
        if (HasFailure())
          return;
      }
    }
  }
}

TEST(WeightsRef, CodesThatArePutAreRead) {
  test::Random random(5);
  for (const WeightFormatInfo &info : weightFormats()) {
    if (!info.quantised || codeLayout(info.format).codes == Codes::grid)
      continue;
    SCOPED_TRACE(info.name);
    const CodeLayout &layout = codeLayout(info.format);
    std::vector<uint8_t> block(info.blockBytes);
    std::vector<uint32_t> codes(info.blockElements);
    for (uint32_t i = 0; i < codes.size(); ++i) {
      codes[i] = random.below(1u << layout.bits());
      layout.put(block.data(), i, codes[i]);
    }
    for (uint32_t first = 0; first < codes.size(); first += 32)
      EXPECT_TRUE(std::ranges::equal(
          layout.read(block.data(), first),
          std::span<const uint32_t>(codes).subspan(first, 32)));
  }
}

TEST(WeightsRef, FloatFormats) {
  const uint8_t half[] = {0x00, 0x3e, 0x01, 0x80}; // 1.5, -2^-24
  EXPECT_EQ(weightAt(f16, half, 0), 1.5f);
  EXPECT_EQ(weightAt(f16, half, 1), -0x1p-24f);
  const uint8_t brain[] = {0x00, 0x00, 0xc0, 0xbf}; // 0, -1.5
  EXPECT_EQ(weightAt(bf16, brain, 1), -1.5f);
  const float single[] = {1, -0.1f};
  EXPECT_EQ(weightAt(f32, reinterpret_cast<const uint8_t *>(single), 1), -0.1f);
}

TEST(WeightsRef, BlockDotMatchesDoubleSums) {
  test::Random random(7);
  for (const WeightFormatInfo &info : weightFormats()) {
    if (!info.quantised || info.bookLevels)
      continue;
    SCOPED_TRACE(info.name);
    const uint64_t columns = 512;
    const std::vector<uint8_t> row =
        randomWeights(random, info.format, 1, columns);
    const std::vector<uint8_t> bytes = random.bytes(columns);
    const int8_t *codes = reinterpret_cast<const int8_t *>(bytes.data());
    for (uint64_t block = 0; block < columns / 32; ++block) {
      const WeightBlock w = weightBlock(info.format, row.data(), block);
      const float d = 0.037f, acc = random.uniform();
      double want = acc, magnitude = std::fabs(acc);
      for (unsigned i = 0; i < 32; ++i) {
        const unsigned part = w.scales == 2 ? i / 16 : 0;
        const double code = codes[32 * block + i] * double(d);
        const double product = double(w.level[i]) * w.scale[part];
        want += (product + w.minimum[part]) * code;
        magnitude +=
            (std::fabs(product) + std::fabs(w.minimum[part])) * std::fabs(code);
      }
      // Two roundings a term, of terms below the sum of magnitudes.
      EXPECT_NEAR(blockDot(w, codes + 32 * block, d, acc), want,
                  magnitude * 0x1p-21);
    }
  }
}

TEST(WeightsRef, BlockDotAddsHalvesInTurn) {
  // Each half adds half an ulp of acc, which rounds back to acc; both at once
  // would be a whole ulp.
  std::vector<uint8_t> block(10, 0xaa); // every level is 1
  block[8] = block[9] = 4;              // 2^-8
  const std::vector<int8_t> codes(32, 1);
  const float acc = 0x1p20f;
  const WeightBlock twoScales = weightBlock(q2_0_rocmfp2, block.data(), 0);
  EXPECT_EQ(blockDot(twoScales, codes.data(), 1.0f, acc), acc);
  // One scale for the block: one addition.
  std::vector<uint8_t> fp4(17, 0x11); // every level is 1
  fp4[16] = 4;
  const WeightBlock oneScale = weightBlock(q4_0_rocmfp4_fast, fp4.data(), 0);
  EXPECT_EQ(blockDot(oneScale, codes.data(), 1.0f, acc), acc + 0.125f);
}

} // namespace
} // namespace ds4::ref
