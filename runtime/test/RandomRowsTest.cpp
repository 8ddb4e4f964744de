// Random rows are what the loader takes: valid in every format.
#include "runtime/RandomRows.h"

#include "runtime/WeightCheck.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace ds4;

static std::vector<std::byte> randomRows(uint64_t seed, const RandomRow &row,
                                         uint64_t rows) {
  SplitMix random(seed);
  // A byte more, to see that it is not written.
  std::vector<std::byte> bytes(rows * row.bytes() + 1, std::byte{0x5a});
  fillRandomRows(random, row, rows, bytes.data());
  EXPECT_EQ(bytes.back(), std::byte{0x5a});
  bytes.pop_back();
  return bytes;
}

TEST(RandomRows, PassTheLoadersChecks) {
  for (const WeightFormatInfo &info : weightFormats()) {
    // So few that nobody can tell the readings of type 107 apart.
    const RandomRow row{info.format, 512, false, 8};
    const std::vector<std::byte> bytes = randomRows(1, row, 15);
    WeightDesc desc;
    desc.name = std::string(info.name);
    desc.format = info.format;
    desc.shape = {15, 512};
    desc.bytes = bytes.size();
    desc.valueLimit = info.format == WeightFormat::i32 ? 8 : 0;
    WeightCheck check(desc, 0);
    const Status status = check.check(bytes, 0);
    EXPECT_TRUE(status) << status.error().text;
    EXPECT_EQ(bytes, randomRows(1, row, 15)) << info.name;
    EXPECT_NE(bytes, randomRows(2, row, 15)) << info.name;
  }
}

TEST(RandomRows, FloatsHaveTheSizeOfWeights) {
  for (bool isVector : {false, true}) {
    const RandomRow row{WeightFormat::f32, 4096, isVector};
    const std::vector<std::byte> bytes = randomRows(1, row, 1);
    std::vector<float> values(4096);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    double squares = 0;
    for (float value : values)
      squares += double(value) * value;
    EXPECT_NEAR(squares, isVector ? 4096 * (1 + 0.125 * 0.125 / 3) : 1,
                isVector ? 100 : 0.1);
  }
}

TEST(RandomRows, ExpertsOfATableRowAreDifferent) {
  const std::vector<std::byte> bytes =
      randomRows(3, {WeightFormat::i32, 6, false, 8}, 100);
  for (size_t at = 0; at < bytes.size(); at += 24) {
    int32_t values[6];
    std::memcpy(values, &bytes[at], sizeof values);
    std::sort(values, values + 6);
    EXPECT_EQ(std::adjacent_find(values, values + 6), values + 6);
    EXPECT_LT(values[5], 8);
  }
}

TEST(RandomRows, BooksAscend) {
  SplitMix random(1);
  const WeightFormat format = WeightFormat::q3_1_rocmfp3_mix;
  const uint32_t levels = weightFormatInfo(format).bookLevels;
  const std::vector<float> books = randomBooks(random, format, 256);
  ASSERT_EQ(books.size(), 512u * levels);
  for (size_t book = 0; book < 512; ++book)
    for (uint32_t i = 1; i < levels; ++i)
      EXPECT_LT(books[book * levels + i - 1], books[book * levels + i]);
}
