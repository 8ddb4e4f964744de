// The oracle's sums, norms and linears against double formulas, and the two
// declared orders against inputs on which any other order gives another value.
#include "ops/Reference.h"
#include "ops/test/RandomWeights.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

using namespace ds4;
using namespace ds4::ref;
using enum WeightFormat;

namespace {

template <typename T> std::vector<uint8_t> bytesOf(const std::vector<T> &v) {
  std::vector<uint8_t> bytes(v.size() * sizeof(T));
  std::memcpy(bytes.data(), v.data(), bytes.size());
  return bytes;
}

/// |got - want| may be this part of the sum of magnitudes: a sum of n terms
/// in f32, in whatever order, stays far below.
constexpr double kSumError = 0x1p-20;

TEST(SumsRef, StridedOrder) {
  // Terms 0 and 256 share a partial sum, where 2^24 + 1 rounds to 2^24.
  std::vector<float> x(600, 0), one(600, 1);
  x[0] = 0x1p24f, x[256] = 1, x[512] = -0x1p24f;
  EXPECT_EQ(stridedDot(x, one), 0.0f);
  x[256] = 0, x[1] = 1;
  EXPECT_EQ(stridedDot(x, one), 1.0f);
  // Partials 0 and 64 meet before 128; lanes 0 and 1 before 2.
  x.assign(600, 0);
  x[0] = 0x1p24f, x[64] = 1, x[128] = -0x1p24f;
  EXPECT_EQ(stridedDot(x, one), 0.0f) << "64 is chain 2: (0+1)+(2+3)";
  x.assign(600, 0);
  x[0] = 0x1p24f, x[1] = 1, x[32] = -0x1p24f;
  EXPECT_EQ(stridedDot(x, one), 1.0f) << "chains of a lane, then lanes";
  x.assign(600, 0);
  x[0] = 0x1p24f, x[32] = -0x1p24f, x[64] = 1;
  EXPECT_EQ(stridedDot(x, one), 1.0f);
  x.assign(600, 0);
  x[0] = 0x1p24f, x[1] = -0x1p24f, x[2] = 1;
  EXPECT_EQ(stridedDot(x, one), 1.0f);
  x.assign(600, 0);
  x[0] = 0x1p24f, x[2] = -0x1p24f, x[1] = 1;
  EXPECT_EQ(stridedDot(x, one), 0.0f);
}

TEST(SumsRef, SegmentedOrder) {
  // 20 terms: segments begin at 0, 2, 5, 7, 10, 12, 15, 17.
  std::vector<float> x(20, 0), one(20, 1);
  x[2] = 0x1p24f, x[3] = 1, x[4] = -0x1p24f;
  EXPECT_EQ(segmentedDot(x, one), 0.0f);
  x.assign(20, 0);
  x[5] = 0x1p24f, x[4] = 1, x[6] = -0x1p24f;
  EXPECT_EQ(segmentedDot(x, one), 1.0f);
  // Fewer terms than segments.
  const std::vector<float> few = {1, 2, 3};
  EXPECT_EQ(segmentedDot(few, few), 14.0f);
  EXPECT_EQ(segmentedDot({}, {}), 0.0f);
}

TEST(SumsRef, MatchDouble) {
  test::Random random(1);
  for (uint64_t n : {1, 31, 64, 255, 256, 257, 1000, 4096}) {
    const std::vector<float> a = random.floats(n), b = random.floats(n);
    double want = 0, magnitude = 0;
    for (uint64_t i = 0; i < n; ++i) {
      want += double(a[i]) * b[i];
      magnitude += std::fabs(double(a[i]) * b[i]);
    }
    EXPECT_NEAR(stridedDot(a, b), want, magnitude * kSumError);
    EXPECT_NEAR(segmentedDot(a, b), want, magnitude * kSumError);
  }
}

TEST(RmsNormRef, MatchesDouble) {
  test::Random random(2);
  const uint64_t width = 96;
  const std::vector<float> x = random.floats(3 * width, 2),
                           gain = random.floats(width);
  std::vector<float> with(x.size()), without(x.size());
  rmsNorm(width, x, gain, 0.5f, with);
  rmsNorm(width, x, {}, 0.5f, without);
  for (uint64_t i = 0; i < x.size(); ++i) {
    double square = 0;
    for (uint64_t j = i / width * width; j < (i / width + 1) * width; ++j)
      square += double(x[j]) * x[j];
    const double want = x[i] / std::sqrt(square / width + 0.5);
    EXPECT_NEAR(without[i], want, 1e-5);
    EXPECT_NEAR(with[i], want * gain[i % width], 1e-5);
  }
}

TEST(QuantizeRef, CodesScalesAndLayout) {
  test::Random random(3);
  std::vector<float> x = random.floats(3 * 64, 5);
  std::fill(x.begin() + 32, x.begin() + 64, 0.0f); // a block of zeros
  const Q8 q8 = quantize(64, x);
  ASSERT_EQ(q8.vectors(), 3u);
  ASSERT_EQ(q8.bytes.size(), 3u * (64 + 8));
  for (uint64_t v = 0; v < 3; ++v)
    for (uint64_t i = 0; i < 64; ++i) {
      double amax = 0;
      for (uint64_t j = i / 32 * 32; j < i / 32 * 32 + 32; ++j)
        amax = std::max(amax, std::fabs(double(x[v * 64 + j])));
      const float scale = q8.scale(v, i / 32);
      EXPECT_EQ(scale, static_cast<float>(amax) / 127.0f);
      EXPECT_LE(std::fabs(q8.codes(v)[i] * double(scale) - x[v * 64 + i]),
                0.5001 * scale);
      EXPECT_EQ(static_cast<int8_t>(q8.bytes[v * 72 + i]), q8.codes(v)[i]);
    }
  EXPECT_EQ(q8.scale(0, 1), 0.0f);
  x[7] = std::nanf("");
  EXPECT_TRUE(std::isnan(quantize(64, x).scale(0, 0)));
}

/// A weight with valid scales; owns its bytes.
struct TestWeight {
  TestWeight(WeightFormat format, uint64_t rows, uint64_t columns,
             test::Random &random) {
    bytes = test::randomWeights(random, format, rows, columns);
    view = {format, bytes, columns, {}, rows};
  }
  TestWeight(const TestWeight &) = delete;

  std::vector<uint8_t> bytes;
  Weight view;
};

/// Row `row` of w times vector `vector` of x, and the sum of magnitudes.
std::pair<double, double> doubleDot(const Act &x, uint64_t vector,
                                    const Weight &w, uint64_t row) {
  const std::vector<float> values = weightRow(w, row);
  double sum = 0, magnitude = 0;
  for (uint64_t i = 0; i < x.width; ++i) {
    const double a =
        x.q8 ? double(x.q8->codes(vector)[i]) * x.q8->scale(vector, i / 32)
             : double(x.values[vector * x.width + i]);
    sum += a * values[i];
    magnitude += std::fabs(a * values[i]);
  }
  return {sum, magnitude};
}

TEST(LinearRef, MatchesDoubleInEveryFormat) {
  test::Random random(4);
  for (const WeightFormatInfo &info : weightFormats()) {
    if (info.format == i32 || info.bookLevels)
      continue;
    const WeightFormat format = info.format;
    SCOPED_TRACE(info.name);
    for (uint64_t columns : {256, 1280}) {
      const TestWeight weight(format, 5, columns, random);
      const std::vector<float> x = random.floats(3 * columns);
      const Q8 q8 = quantize(columns, x);
      for (const Act &act : {Act(x, columns), Act(q8)}) {
        if (act.q8 && !info.quantised)
          continue;
        std::vector<float> y(3 * 5);
        linear(act, weight.view, y);
        for (uint64_t i = 0; i < y.size(); ++i) {
          const auto [want, magnitude] =
              doubleDot(act, i / 5, weight.view, i % 5);
          EXPECT_NEAR(y[i], want, magnitude * kSumError);
        }
      }
    }
  }
}

TEST(LinearRef, QuantisedSegmentsAreOfBlocks) {
  // 11 blocks: segments begin at 0, 1, 2, 4, 5, 6, 8, 9.
  std::vector<uint8_t> row(11 * 17, 0x11); // every level is 1
  for (uint64_t b = 0; b < 11; ++b)
    row[b * 17 + 16] = 0x38; // 0.5
  const Weight weight{q4_0_rocmfp4_fast, row, 11 * 32, {}, 0};
  // One code of 127 a block: its term is half of x, to the last bits.
  std::vector<float> x(11 * 32, 0), y(1);
  x[5 * 32] = -0x1p24f, x[6 * 32] = 0x1p24f, x[7 * 32] = 0.75f;
  linear(quantize(11 * 32, x), weight, y);
  EXPECT_EQ(y[0], 0.0f) << "blocks 6 and 7 are one segment";
  x[7 * 32] = 0, x[8 * 32] = 0.75f;
  linear(quantize(11 * 32, x), weight, y);
  EXPECT_NEAR(y[0], 0.375, 1e-6) << "block 8 is another";
}

TEST(LinearRef, GroupsReadTheirOwnInput) {
  test::Random random(5);
  const uint64_t groups = 3, perGroup = 4, columns = 64;
  const TestWeight weight(q8_0, groups * perGroup, columns, random);
  const std::vector<float> x = random.floats(2 * groups * columns);
  const Q8 q8 = quantize(columns, x);
  for (const Act &act : {Act(x, columns), Act(q8)}) {
    std::vector<float> y(2 * groups * perGroup);
    groupedLinear(groups, act, weight.view, y);
    for (uint64_t i = 0; i < y.size(); ++i) {
      const uint64_t t = i / (groups * perGroup), row = i % (groups * perGroup);
      const auto [want, magnitude] =
          doubleDot(act, t * groups + row / perGroup, weight.view, row);
      EXPECT_NEAR(y[i], want, magnitude * kSumError);
    }
  }
}

TEST(RotateRef, TheStoredMatrixGivesTheProductOfTheOriginalOne) {
  // Two experts with the same stored matrix W diag(H, ...), of which one says
  // so. Entry i, j of H is (-1)^(ones of i & j) / sqrt(32).
  test::Random random(11);
  const uint64_t rows = 5, width = 96;
  TestWeight stored(q3_1_rocmfp3_mix, 2 * rows, width, random);
  const std::vector<float> books =
      test::randomBooks(random, q3_1_rocmfp3_mix, 2);
  stored.view.books = books;
  stored.view.rowsPerExpert = rows;
  const std::vector<int32_t> experts = {1, 0}, rotations = {0, 1};
  const std::vector<float> h = random.floats(2 * width);
  std::vector<float> rotated(h.size()), result(2 * rows);
  rotate(width, h, experts, rotations, rotated);
  expertDown(Act(rotated, width), experts, stored.view, result);
  for (uint64_t choice = 0; choice < 2; ++choice)
    for (uint64_t r = 0; r < rows; ++r) {
      const uint64_t expert = static_cast<uint64_t>(experts[choice]);
      const std::vector<float> row = weightRow(stored.view, expert * rows + r);
      double want = 0, magnitude = 0;
      for (uint64_t i = 0; i < width; ++i) {
        double original = row[i];
        if (rotations[expert]) {
          original = 0;
          for (uint64_t j = 0; j < 32; ++j)
            original += row[i / 32 * 32 + j] *
                        (std::popcount(i % 32 & j) % 2 ? -1 : 1) /
                        std::sqrt(32.0);
        }
        want += original * h[choice * width + i];
        magnitude += std::fabs(original * h[choice * width + i]);
      }
      EXPECT_NEAR(result[choice * rows + r], want, 8 * magnitude * kSumError)
          << "expert " << expert;
    }
}

TEST(EmbedRef, CopiesTheRowToEveryStream) {
  test::Random random(6);
  const TestWeight table(q6_K, 4, 256, random);
  const std::vector<int32_t> tokens = {3, 0};
  std::vector<float> result(2 * 4 * 256);
  embed(tokens, table.view, 4, result);
  for (uint64_t i = 0; i < result.size(); ++i)
    EXPECT_EQ(result[i],
              weightAt(q6_K, table.view.row(tokens[i / 1024]), i % 256));
}

TEST(ExpertsRef, MatchDoubleAndReadTheirExpert) {
  test::Random random(8);
  const uint64_t experts = 5, inter = 6, hidden = 128, k = 2;
  const std::vector<int32_t> chosen = {4, 1, 0, 4};
  for (WeightFormat format :
       {q2_0_rocmfp2, q2_1_rocmfp2_mix, q3_1_rocmfp3_mix}) {
    SCOPED_TRACE(weightFormatInfo(format).name);
    TestWeight gate(format, experts * inter, hidden, random);
    TestWeight up(format, experts * inter, hidden, random);
    std::vector<float> books;
    const uint32_t levels = weightFormatInfo(format).bookLevels;
    for (uint64_t i = 0; i < experts * 2 * levels; ++i)
      books.push_back(static_cast<float>(i % levels) * 0.25f - 0.5f +
                      static_cast<float>(i / levels) * 0.03125f);
    gate.view.books = up.view.books = books;
    gate.view.rowsPerExpert = up.view.rowsPerExpert = inter;
    const std::vector<float> x = random.floats(2 * hidden);
    const Act act(x, hidden);
    std::vector<float> gateOut(4 * inter), upOut(4 * inter);
    expertGateUp(act, chosen, gate.view, up.view, gateOut, upOut);
    for (uint64_t i = 0; i < gateOut.size(); ++i) {
      const uint64_t choice = i / inter;
      const uint64_t row = chosen[choice] * inter + i % inter;
      const auto [g, gm] = doubleDot(act, choice / k, gate.view, row);
      EXPECT_NEAR(gateOut[i], g, gm * kSumError);
      const auto [u, um] = doubleDot(act, choice / k, up.view, row);
      EXPECT_NEAR(upOut[i], u, um * kSumError);
    }
    if (levels) {
      // int8 books and activations; each level is what its int8 form means.
      const std::vector<uint8_t> int8 = test::int8Books(format, books);
      std::vector<float> meant;
      for (uint64_t book = 0; book < experts * 2; ++book) {
        const uint8_t *at = int8.data() + book * (levels + 4);
        // The second book's is relative to the first one's.
        float scale, own = 1;
        std::memcpy(&scale, at - book % 2 * (levels + 4) + levels, 4);
        if (book % 2)
          std::memcpy(&own, at + levels, 4);
        scale *= own;
        for (uint64_t i = 0; i < levels; ++i)
          meant.push_back(static_cast<float>(static_cast<int8_t>(at[i])) *
                          scale);
      }
      Weight view = gate.view;
      view.int8Books = int8;
      const Q8 q8 = quantize(hidden, x);
      std::vector<float> unused(4 * inter);
      expertGateUp(q8, chosen, view, view, gateOut, unused);
      view.books = meant;
      for (uint64_t i = 0; i < gateOut.size(); ++i) {
        const uint64_t choice = i / inter;
        const uint64_t row = chosen[choice] * inter + i % inter;
        const auto [g, gm] = doubleDot(q8, choice / k, view, row);
        EXPECT_NEAR(gateOut[i], g, gm * kSumError);
      }
    }
    // The same weight as a down projection: every choice has its own input.
    const std::vector<float> h = random.floats(4 * hidden);
    std::vector<float> down(4 * inter);
    expertDown(Act(h, hidden), chosen, gate.view, down);
    for (uint64_t i = 0; i < down.size(); ++i) {
      const uint64_t row = chosen[i / inter] * inter + i % inter;
      const auto [d, dm] = doubleDot(Act(h, hidden), i / inter, gate.view, row);
      EXPECT_NEAR(down[i], d, dm * kSumError);
    }
  }
}

} // namespace
