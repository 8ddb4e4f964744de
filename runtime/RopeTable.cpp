// RopeTable.cpp - frequencies after YaRN without its magnitude factor, and
// their cos and sin. Angles are products in binary64: at a million positions
// an f32 product would be off by 0.06 radians.
#include "runtime/RopeTable.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ds4 {

double ropeFrequency(const RopeTable &table, uint32_t pair) {
  const double n = table.dims;
  const double theta = std::pow(table.base, -2.0 * pair / n);
  if (table.factor == 1)
    return theta;
  const auto pairOfRotations = [&](double rotations) {
    return n *
           std::log(static_cast<double>(table.original) /
                    (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(table.base));
  };
  const double low = std::max(0.0, std::floor(pairOfRotations(table.betaFast)));
  const double high =
      std::min(n - 1, std::ceil(pairOfRotations(table.betaSlow)));
  const double t = std::clamp((pair - low) / (high - low), 0.0, 1.0);
  return theta * (1 - t) + theta / table.factor * t;
}

std::vector<float> makeRopeTable(const RopeTable &table) {
  std::vector<double> frequency;
  for (uint32_t i = 0; i < table.dims / 2; ++i)
    frequency.push_back(ropeFrequency(table, i));
  std::vector<float> values;
  values.reserve(table.positions * table.dims);
  for (uint64_t p = 0; p < table.positions; ++p)
    for (double w : frequency) {
      const double angle = static_cast<double>(p) * w;
      values.push_back(static_cast<float>(std::cos(angle)));
      values.push_back(static_cast<float>(std::sin(angle)));
    }
  return values;
}

} // namespace ds4
