// The oracle's attention ops and cached rows against double formulas written
// from the paper, one query at a time over the whole history.
#include "ops/Reference.h"
#include "ops/test/RandomFloats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

using namespace ds4;
using namespace ds4::ref;

namespace {

std::vector<float> slice(const std::vector<float> &v, uint64_t first,
                         uint64_t count) {
  return {v.begin() + static_cast<ptrdiff_t>(first),
          v.begin() + static_cast<ptrdiff_t>(first + count)};
}

Step stepOf(int32_t start, int32_t count) { return {start, count, 0, 0}; }

TEST(RopeRef, RotatesInterleavedPairsOfTheTail) {
  test::Random random(21);
  const uint64_t width = 12, dims = 8, heads = 2;
  std::vector<float> table; // angle 0.1 p (i + 1)
  for (int p = 0; p < 20; ++p)
    for (int i = 0; i < 4; ++i) {
      table.push_back(static_cast<float>(std::cos(0.1 * p * (i + 1))));
      table.push_back(static_cast<float>(std::sin(0.1 * p * (i + 1))));
    }
  // Windows of 4 of a step that completes windows 1 and 2: positions 4, 8.
  for (const Rows &rows : {Rows{1, stepOf(5, 2)}, Rows{4, stepOf(5, 8)}}) {
    ASSERT_EQ(rows.count(), 2u);
    const std::vector<float> x = random.floats(2 * heads * width);
    std::vector<float> y(x.size()), back(x.size());
    rope(rows, width, dims, false, x, table, y);
    rope(rows, width, dims, true, y, table, back);
    for (uint64_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(back[i], x[i], 1e-5);
      const uint64_t e = i % width;
      if (e < width - dims) {
        EXPECT_EQ(y[i], x[i]);
        continue;
      }
      const uint64_t pair = (e - (width - dims)) / 2;
      const uint64_t even = i - (e - (width - dims)) % 2;
      const double p = rows.ratio == 1
                           ? 5.0 + double(i / (heads * width))
                           : 4.0 + 4.0 * double(i / (heads * width));
      const std::complex<double> want =
          std::complex<double>(x[even], x[even + 1]) *
          std::polar(1.0, 0.1 * p * double(pair + 1));
      EXPECT_NEAR(y[i], i == even ? want.real() : want.imag(), 1e-5);
    }
  }
}

TEST(HadamardRef, IsTheSylvesterMatrix) {
  test::Random random(22);
  const std::vector<float> x = random.floats(2 * 32);
  std::vector<float> y(x.size());
  hadamard(32, x, y);
  for (uint64_t i = 0; i < x.size(); ++i) {
    double want = 0;
    for (uint64_t j = 0; j < 32; ++j)
      want += std::popcount(j & i % 32) % 2 ? -x[i / 32 * 32 + j]
                                            : x[i / 32 * 32 + j];
    EXPECT_NEAR(y[i], want / std::sqrt(32.0), 1e-5);
  }
}

TEST(StateRef, RowBytes) {
  EXPECT_EQ(stateRowBytes(RowStorage::f32, 512), 2048u);
  EXPECT_EQ(stateRowBytes(RowStorage::f16, 512), 1024u);
  EXPECT_EQ(stateRowBytes(RowStorage::fp8, 512), 592u); // 448 + 128 + 7
  EXPECT_EQ(stateRowBytes(RowStorage::fp8, 128), 208u); // 64 + 128 + 1
  EXPECT_EQ(stateRowBytes(RowStorage::fp4, 128), 68u);
}

TEST(StateRef, LayoutOfAnFp8Row) {
  State state(2, 192, RowStorage::fp8);
  std::vector<float> row(192, 0);
  row[0] = 448, row[1] = -1;      // scale 1: codes 0x7e, 0xb8
  row[64] = 2 * 448, row[65] = 2; // scale 2
  row[128] = 1.5f;
  state.write(5, row); // slot 1
  const uint8_t *p = state.bytes.data() + stateRowBytes(RowStorage::fp8, 192);
  EXPECT_EQ(p[0], 0x7e);
  EXPECT_EQ(p[1], 0xb8);
  EXPECT_EQ(p[65], 0x38);
  EXPECT_EQ(p[128] | p[129] << 8, 0x3fc0); // bfloat16 1.5
  EXPECT_EQ(p[128 + 128], 127);
  EXPECT_EQ(p[128 + 129], 128);
  EXPECT_EQ(state.read(7), row);
  EXPECT_EQ(state.read(4), std::vector<float>(192, 0)) << "slot 0";
}

TEST(StateRef, LayoutOfAnFp4Row) {
  State state(1, 64, RowStorage::fp4);
  std::vector<float> row(64, 0);
  row[0] = 6, row[1] = -0.5f, row[33] = 12, row[34] = 1;
  state.write(0, row);
  EXPECT_EQ(state.bytes[0], 0x97); // 6 is code 7; -0.5 is code 9, high nibble
  EXPECT_EQ(state.bytes[16], 0x70);
  EXPECT_EQ(state.bytes[17], 0x01); // 0.5 * 2
  EXPECT_EQ(state.bytes[32], 127);
  EXPECT_EQ(state.bytes[33], 128);
  EXPECT_EQ(state.read(0), row);
}

TEST(RoundRowRef, IsIdempotentAndNear) {
  test::Random random(23);
  const std::vector<float> x = random.floats(3 * 192, 3);
  struct Case {
    RowStorage storage;
    double relative; ///< of the block's greatest magnitude
  };
  for (const Case &c : {Case{RowStorage::f32, 0},
                        {RowStorage::f16, 0x1p-11},
                        {RowStorage::fp8, 0x1p-4},
                        {RowStorage::fp4, 0x1p-2}}) {
    std::vector<float> once(x.size()), twice(x.size());
    roundRow(c.storage, 192, x, once);
    roundRow(c.storage, 192, once, twice);
    EXPECT_EQ(once, twice);
    for (uint64_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(once[i], x[i], 9 * c.relative);
  }
  // What simulate gives is stored without a further change.
  std::vector<float> simulated(x.size()), stored(x.size());
  simulate(SimulateMode::fp8, 192, 128, x, simulated);
  EXPECT_EQ(slice(simulated, 128, 64), slice(x, 128, 64)) << "the tail";
  roundRow(RowStorage::fp8, 192, simulated, stored);
  EXPECT_EQ(slice(stored, 0, 128), slice(simulated, 0, 128));
  simulate(SimulateMode::fp4, 192, 192, x, simulated);
  roundRow(RowStorage::fp4, 192, simulated, stored);
  EXPECT_EQ(stored, simulated);
}

TEST(AppendRef, TheLaterRowOfASlotStays) {
  State state(4, 1, RowStorage::f32);
  const std::vector<float> x = {10, 11, 12, 13, 14, 15};
  append({1, stepOf(3, 6)}, x, state); // numbers 3 .. 8
  EXPECT_EQ(state.read(8)[0], 15);
  EXPECT_EQ(state.read(5)[0], 12);
  EXPECT_EQ(state.read(6)[0], 13);
  EXPECT_EQ(state.read(7)[0], 14);
  // Windows of 4 completed by positions 6 .. 12: numbers 1 and 2.
  append({4, stepOf(6, 7)}, std::vector<float>{20, 21}, state);
  EXPECT_EQ(state.read(1)[0], 20);
  EXPECT_EQ(state.read(2)[0], 21);
}

TEST(ApeAddRef, FollowsThePosition) {
  const std::vector<float> ape = {1, 2, 3, 4, 5, 6}; // [3, 2]
  std::vector<uint8_t> bytes(24);
  std::memcpy(bytes.data(), ape.data(), 24);
  std::vector<float> result(4);
  apeAdd(stepOf(5, 2), std::vector<float>{10, 20, 30, 40},
         {WeightFormat::f32, bytes, 2, {}, 0}, result);
  EXPECT_EQ(result, (std::vector<float>{15, 26, 31, 42}));
}

/// Row w of a compressor over the whole history, in double.
std::vector<double> pooled(const std::vector<float> &kv,
                           const std::vector<float> &gate, uint64_t channels,
                           uint64_t ratio, bool overlap, uint64_t w) {
  const uint64_t width = overlap ? channels / 2 : channels;
  std::vector<double> row(width);
  for (uint64_t c = 0; c < width; ++c) {
    double z = 0, v = 0;
    const auto add = [&](uint64_t t, uint64_t channel) {
      const double e = std::exp(double(gate[t * channels + channel]));
      z += e;
      v += e * kv[t * channels + channel];
    };
    if (overlap && w > 0)
      for (uint64_t t = ratio * (w - 1); t < ratio * w; ++t)
        add(t, c);
    for (uint64_t t = ratio * w; t < ratio * (w + 1); ++t)
      add(t, overlap ? width + c : c);
    row[c] = v / z;
  }
  return row;
}

TEST(CompressRef, PoolsWindowsOfAnyStep) {
  test::Random random(24);
  struct Case {
    uint64_t ratio;
    bool overlap;
    uint64_t ringRows;
  };
  for (const Case &c : {Case{4, true, 16}, Case{8, false, 16}}) {
    const uint64_t tokens = 45, width = 6, channels = c.overlap ? 12 : 6;
    const std::vector<float> kv = random.floats(tokens * channels),
                             gate = random.floats(tokens * channels, 2);
    for (uint64_t chunk : {1, 3, 7, 45}) {
      State kvRing(c.ringRows, channels, RowStorage::f32);
      State gateRing(c.ringRows, channels, RowStorage::f32);
      uint64_t seen = 0;
      for (uint64_t first = 0; first < tokens; first += chunk) {
        const uint64_t count = std::min(chunk, tokens - first);
        const Step step = stepOf(int32_t(first), int32_t(count));
        const auto k = slice(kv, first * channels, count * channels);
        const auto g = slice(gate, first * channels, count * channels);
        const Rows windows{RowRatio(c.ratio), step};
        std::vector<float> rows(windows.count() * width);
        compress(step, c.ratio, c.overlap, k, g, kvRing, gateRing, rows);
        append({1, step}, k, kvRing);
        append({1, step}, g, gateRing);
        for (uint64_t i = 0; i < windows.count(); ++i) {
          EXPECT_EQ(windows.number(i), seen++);
          const std::vector<double> want =
              pooled(kv, gate, channels, c.ratio, c.overlap, windows.number(i));
          for (uint64_t e = 0; e < width; ++e)
            EXPECT_NEAR(rows[i * width + e], want[e], 1e-5);
        }
      }
      EXPECT_EQ(seen, tokens / c.ratio);
    }
  }
}

TEST(IndexScoreRef, MatchesDoubleForVisibleRows) {
  test::Random random(25);
  const IndexScoreParams params{3, 16, 4, 2, 0.25f};
  State keys(12, 16, RowStorage::f32);
  std::vector<std::vector<float>> rows;
  for (uint64_t w = 0; w < 12; ++w) {
    rows.push_back(random.floats(16));
    keys.write(w, rows.back());
  }
  const Step step = stepOf(9, 7); // visible: 2, 2, 3, 3, 3, 3, 4
  const std::vector<float> q = random.floats(7 * 3 * 16),
                           u = random.floats(7 * 3);
  std::vector<float> scores(7 * 12, -77);
  indexScore(params, step, q, u, keys, scores);
  for (uint64_t t = 0; t < 7; ++t) {
    const uint64_t visible = (9 + t + 1) / 4;
    for (uint64_t w = 0; w < 12; ++w) {
      if (visible <= 2 || w >= visible) {
        EXPECT_EQ(scores[t * 12 + w], -77);
        continue;
      }
      double want = 0;
      for (uint64_t h = 0; h < 3; ++h) {
        double dot = 0;
        for (uint64_t i = 0; i < 16; ++i)
          dot += double(q[(t * 3 + h) * 16 + i]) * rows[w][i];
        want += u[t * 3 + h] * 0.25 * std::max(dot, 0.0);
      }
      EXPECT_NEAR(scores[t * 12 + w], want, 1e-5);
    }
  }
}

TEST(TopKRef, HigherScoreThenLowerRowListedAscending) {
  // Position 23 sees 6 rows of 4 tokens.
  const std::vector<float> scores = {1, 0.0f, 5, -0.0f, 0.0f, -3, 99, 99};
  std::vector<int32_t> result(4, -1);
  ASSERT_FALSE(topK(stepOf(23, 1), 4, 4, 8, scores, result));
  EXPECT_EQ(result, (std::vector<int32_t>{0, 1, 2, 3}));
  // Position 11 sees 3: all of them, NaN or not.
  const std::vector<float> bad(8, std::nanf(""));
  result.assign(4, -1);
  ASSERT_FALSE(topK(stepOf(11, 1), 4, 4, 8, bad, result));
  EXPECT_EQ(result, (std::vector<int32_t>{0, 1, 2, -1}));
  EXPECT_EQ(topK(stepOf(23, 1), 4, 4, 8, bad, result), NanRow(0));
}

struct AttendCase {
  uint64_t ratio; ///< 0: raw rows alone
  uint64_t k;     ///< 0: all visible rows
};

/// attend in double: one softmax over sink, window and compressed rows.
TEST(AttendRef, IsOneSoftmaxWithTheSink) {
  test::Random random(26);
  const uint64_t heads = 2, width = 8, window = 40, tokens = 90;
  const std::vector<float> history = random.floats(tokens * width),
                           q = random.floats(tokens * heads * width, 2);
  const std::vector<float> sinks = {0.5f, 3};
  State compressed(64, width, RowStorage::f32);
  std::vector<std::vector<float>> rows;
  for (uint64_t w = 0; w < 64; ++w) {
    rows.push_back(random.floats(width));
    compressed.write(w, rows.back());
  }
  for (const AttendCase &c : {AttendCase{0, 0}, {2, 0}, {4, 3}}) {
    const AttendParams params{heads, width, window, c.ratio, 0.6f};
    std::vector<float> whole;
    for (uint64_t chunk : {90, 1, 17}) {
      State ring(64, width, RowStorage::f32);
      std::vector<float> all;
      for (uint64_t first = 0; first < tokens; first += chunk) {
        const uint64_t count = std::min(chunk, tokens - first);
        const Step step = stepOf(int32_t(first), int32_t(count));
        const auto kv = slice(history, first * width, count * width);
        const auto queries =
            slice(q, first * heads * width, count * heads * width);
        std::vector<int32_t> selected;
        for (uint64_t t = first; c.k && t < first + count; ++t) {
          // The last k visible rows, or all of them.
          const uint64_t visible = (t + 1) / c.ratio;
          const uint64_t begin = visible > c.k ? visible - c.k : 0;
          for (uint64_t j = 0; j < c.k; ++j)
            selected.push_back(int32_t(begin + j));
        }
        std::vector<float> o(queries.size());
        attend(params, step, queries, kv, ring, sinks,
               c.ratio ? &compressed : nullptr, selected, o);
        append({1, step}, kv, ring);
        all.insert(all.end(), o.begin(), o.end());
      }
      if (whole.empty())
        whole = all;
      EXPECT_EQ(all, whole) << "steps of " << chunk;
    }

    for (uint64_t p = 0; p < tokens; ++p)
      for (uint64_t h = 0; h < heads; ++h) {
        std::vector<const float *> list;
        for (uint64_t r = p + 1 > window ? p + 1 - window : 0; r <= p; ++r)
          list.push_back(&history[r * width]);
        const uint64_t visible = c.ratio ? (p + 1) / c.ratio : 0;
        for (uint64_t w = c.k && visible > c.k ? visible - c.k : 0; w < visible;
             ++w)
          list.push_back(rows[w].data());
        double z = std::exp(double(sinks[h]));
        std::vector<double> o(width);
        for (const float *row : list) {
          double s = 0;
          for (uint64_t i = 0; i < width; ++i)
            s += double(q[(p * heads + h) * width + i]) * row[i];
          const double e = std::exp(s * 0.6);
          z += e;
          for (uint64_t i = 0; i < width; ++i)
            o[i] += e * row[i];
        }
        for (uint64_t i = 0; i < width; ++i)
          EXPECT_NEAR(whole[(p * heads + h) * width + i], o[i] / z, 2e-5);
      }
  }
}

} // namespace
