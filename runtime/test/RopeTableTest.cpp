// Rotary tables against the model's published facts and a formula in long
// double.
#include "runtime/RopeTable.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace ds4;

namespace {

RopeTable compressed() {
  RopeTable table;
  table.positions = 300;
  table.dims = 64;
  table.base = 160000;
  table.factor = 16;
  table.original = 65536;
  return table;
}

TEST(RopeTable, PlainFrequencies) {
  RopeTable table;
  table.positions = 5;
  table.dims = 64;
  table.base = 10000;
  const std::vector<float> values = makeRopeTable(table);
  ASSERT_EQ(values.size(), 5u * 64);
  for (int p = 0; p < 5; ++p)
    for (int i = 0; i < 32; ++i) {
      const long double angle = p * std::pow(10000.0L, -2.0L * i / 64);
      EXPECT_FLOAT_EQ(values[p * 64 + 2 * i], std::cos(angle));
      EXPECT_FLOAT_EQ(values[p * 64 + 2 * i + 1], std::sin(angle));
    }
}

TEST(RopeTable, YarnScalesPairsFrom15To25) {
  // V4 Flash: pairs 0..15 unscaled, 25..31 divided by 16, linear between.
  const RopeTable table = compressed();
  for (uint32_t i = 0; i < 32; ++i) {
    const double theta = std::pow(160000.0, -2.0 * i / 64);
    const double t = i <= 15 ? 0 : i >= 25 ? 1 : (i - 15) / 10.0;
    EXPECT_NEAR(ropeFrequency(table, i) / theta, 1 - t + t / 16, 1e-12) << i;
  }
}

TEST(RopeTable, HasNoMagnitudeFactor) {
  const std::vector<float> values = makeRopeTable(compressed());
  for (size_t i = 0; i < values.size(); i += 2)
    EXPECT_NEAR(std::hypot(values[i], values[i + 1]), 1.0, 1e-7);
}

} // namespace
