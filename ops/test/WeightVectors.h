// WeightVectors.h - the published decoders' vectors in ops/test/data/
// (docs/formats.md says where they are from), for the tests of the oracle's
// decoders and of the device's.
#ifndef DS4_OPS_TEST_WEIGHTVECTORS_H
#define DS4_OPS_TEST_WEIGHTVECTORS_H

#include "runtime/WeightFormats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace ds4::test {

/// Blocks and their values: PREFIX blocks.bin and PREFIX values.bin, `rows`
/// rows; with learned levels a row is of one expert.
struct WeightVectors {
  WeightFormat format;
  const char *prefix;
  const char *books = ""; ///< bfloat16 [rows, 2, levels]
  uint64_t rows = 1;
};

inline constexpr WeightVectors kWeightVectors[] = {
    {WeightFormat::q4_0, "q4_0."},
    {WeightFormat::q4_1, "q4_1."},
    {WeightFormat::q5_0, "q5_0."},
    {WeightFormat::q5_1, "q5_1."},
    {WeightFormat::q8_0, "q8_0."},
    {WeightFormat::q2_K, "q2_K."},
    {WeightFormat::q3_K, "q3_K."},
    {WeightFormat::q4_K, "q4_K."},
    {WeightFormat::q5_K, "q5_K."},
    {WeightFormat::q6_K, "q6_K."},
    {WeightFormat::iq2_xxs, "iq2_xxs."},
    {WeightFormat::iq3_xxs, "iq3_xxs."},
    {WeightFormat::iq4_nl, "iq4_nl."},
    {WeightFormat::iq3_s, "iq3_s."},
    {WeightFormat::iq4_xs, "iq4_xs."},
    {WeightFormat::mxfp4, "mxfp4."},
    {WeightFormat::q4_0_rocmfp4, "fp4.dequant."},
    {WeightFormat::q4_0_rocmfp4_fast, "fp4_fast.dequant."},
    {WeightFormat::q6_0_rocmfpx, "fp6.dequant."},
    {WeightFormat::q8_0_rocmfpx, "fp8.dequant."},
    {WeightFormat::q3_0_rocmfpx, "fp3.dequant."},
    {WeightFormat::q3_1_rocmfp3_mix, "mix105.dequant.", "mix105.codebooks.bin",
     4},
    {WeightFormat::q2_1_rocmfp2_mix, "mix106.dequant.", "mix106.codebooks.bin",
     4},
    {WeightFormat::q2_0_rocmfp2, "fp2.dequant."},
    {WeightFormat::q2_0_rocmfp2_affine, "fp2_affine.dequant."},
};

inline std::vector<uint8_t> readData(const std::string &name) {
  std::ifstream file(DS4_SOURCE_DIR "/ops/test/data/" + name, std::ios::binary);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<float> readFloats(const std::string &name) {
  const std::vector<uint8_t> bytes = readData(name);
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// bfloat16 bits widened by hand; empty without a name.
inline std::vector<float> readBooks(const std::string &name) {
  std::vector<float> values;
  if (name.empty())
    return values;
  const std::vector<uint8_t> bytes = readData(name);
  for (size_t i = 0; i < bytes.size(); i += 2)
    values.push_back(std::bit_cast<float>(
        static_cast<uint32_t>(bytes[i] << 16 | bytes[i + 1] << 24)));
  return values;
}

} // namespace ds4::test

#endif // DS4_OPS_TEST_WEIGHTVECTORS_H
