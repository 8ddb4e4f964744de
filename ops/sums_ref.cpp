// sums_ref.cpp - the two declared orders of sums (ir/Ds4Dialect.td).
#include "ops/Reference.h"
#include "ops/prelude.h"

#include <array>
#include <cassert>

namespace ds4::ref {

float tree8(std::span<const float, 8> p) {
  return ((p[0] + p[1]) + (p[2] + p[3])) + ((p[4] + p[5]) + (p[6] + p[7]));
}

float stridedDot(Floats a, Floats b) {
  assert(a.size() == b.size());
  std::array<float, 256> partial{};
  for (uint64_t i = 0; i < a.size(); ++i)
    partial[i % 256] = fma_f32(a[i], b[i], partial[i % 256]);

  std::array<float, 32> lane;
  for (uint64_t l = 0; l < 32; ++l) {
    std::array<float, 8> chain;
    for (uint64_t j = 0; j < 8; ++j)
      chain[j] = partial[l + 32 * j];
    lane[l] = tree8(chain);
  }
  for (uint64_t mask = 1; mask < 32; mask *= 2) {
    const std::array<float, 32> before = lane;
    for (uint64_t l = 0; l < 32; ++l)
      lane[l] = before[l] + before[l ^ mask];
  }
  return lane[0];
}

float segmentedDot(Floats a, Floats b) {
  assert(a.size() == b.size());
  const uint64_t n = a.size();
  std::array<float, 8> segment{};
  for (uint64_t s = 0; s < 8; ++s)
    for (uint64_t i = segmentBegin(s, n); i < segmentBegin(s + 1, n); ++i)
      segment[s] = fma_f32(a[i], b[i], segment[s]);
  return tree8(segment);
}

} // namespace ds4::ref
