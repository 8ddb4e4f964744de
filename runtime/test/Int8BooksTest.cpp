// The int8 form of learned books (ds4.books), against the published one and by
// its own rules.
#include "runtime/DecodeTables.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

using namespace ds4;
using enum WeightFormat;

namespace {

std::vector<uint8_t> readVectors(const std::string &name) {
  std::ifstream file(DS4_SOURCE_DIR "/ops/test/data/" + name, std::ios::binary);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The int8 form of two books, with its S and R (ds4.books).
struct BothBooks {
  std::vector<int8_t> levels[2];
  float scale[2];
};
BothBooks int8Books(WeightFormat format, std::vector<float> books) {
  const DecodeTable table{format, 1, std::move(books), {1}, {}};
  const std::vector<uint8_t> bytes = table.int8Books();
  const size_t levels = weightFormatInfo(format).bookLevels;
  BothBooks result;
  for (int book = 0; book < 2; ++book) {
    const uint8_t *at = bytes.data() + book * (levels + 4);
    result.levels[book].assign(at, at + levels);
    std::memcpy(&result.scale[book], at + levels, 4);
  }
  return result;
}

TEST(Int8Books, FirstOnesEqualThePublished) {
  for (const auto &[format, name] :
       {std::pair(q3_1_rocmfp3_mix, std::string("mix105")),
        std::pair(q2_1_rocmfp2_mix, std::string("mix106"))}) {
    const size_t levels = weightFormatInfo(format).bookLevels;
    const std::vector<uint8_t> bf16 = readVectors(name + ".codebooks.bin");
    const std::vector<uint8_t> want = readVectors(name + ".int8lut.bin");
    const std::vector<uint8_t> scales =
        readVectors(name + ".int8lut_scale.bin");
    ASSERT_EQ(want.size(), 4 * 2 * levels);
    std::vector<float> values;
    for (size_t i = 0; i < bf16.size(); i += 2)
      values.push_back(std::bit_cast<float>(
          static_cast<uint32_t>(bf16[i] << 16 | bf16[i + 1] << 24)));
    for (size_t expert = 0; expert < 4; ++expert) {
      const float *first = &values[2 * expert * levels];
      const BothBooks got =
          int8Books(format, std::vector<float>(first, first + 2 * levels));
      EXPECT_EQ(
          std::memcmp(got.levels[0].data(), &want[2 * expert * levels], levels),
          0)
          << expert;
      EXPECT_EQ(std::memcmp(&got.scale[0], &scales[8 * expert], 4), 0);
      // The second book uses more than half of int8 and rounds to its steps.
      const float step = got.scale[0] * got.scale[1];
      int largest = 0;
      for (size_t i = 0; i < levels; ++i) {
        const int level = got.levels[1][i];
        largest = std::max(largest, std::abs(level));
        EXPECT_LE(
            std::fabs(first[levels + i] - step * static_cast<float>(level)),
            0.5001f * step);
      }
      EXPECT_GE(largest, 63);
    }
  }
}

TEST(Int8Books, SecondOnesOfOtherSizes) {
  const auto check = [](float second, float scale, float ratio, int largest) {
    const BothBooks got =
        int8Books(q2_1_rocmfp2_mix,
                  {-127, 0, 1, 100, -second, 0, second / 2, second * 0.75f});
    EXPECT_EQ(got.scale[0], scale) << second;
    EXPECT_EQ(got.scale[1], ratio) << second;
    EXPECT_EQ(got.levels[1][0], -largest) << second;
    EXPECT_EQ(got.levels[0][0], -static_cast<int>(std::nearbyint(127 / scale)));
  };
  check(127, 1, 1, 127);
  check(128, 1, 2, 64);
  check(254, 1, 2, 127);
  check(508, 1, 4, 127);
  check(1016, 2, 4, 127); // S is larger: no power beyond 2^2
  check(100, 1, 1, 100);
  check(63.5f, 1, 0.5f, 127);
  check(0.5f, 1, 0.0078125f, 64);
  check(0.25f, 1, 0.0078125f, 32);
}

} // namespace
