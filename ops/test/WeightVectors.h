// WeightVectors.h - the published decoders' vectors in ops/test/data/
// (docs/formats.md says where they are from), for the tests of the oracle's
// decoders and of the device's.
#ifndef DS4_OPS_TEST_WEIGHTVECTORS_H
#define DS4_OPS_TEST_WEIGHTVECTORS_H

#include "ops/test/VectorFiles.h"
#include "runtime/WeightFormats.h"

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

inline constexpr VectorFolder kOpsVectors{"ops/test/data/"};

/// f32 [rows, 2, levels]; empty without learned levels.
inline std::vector<float> booksOf(const WeightVectors &vectors) {
  return *vectors.books ? kOpsVectors.bfloats(vectors.books)
                        : std::vector<float>();
}

} // namespace ds4::test

#endif // DS4_OPS_TEST_WEIGHTVECTORS_H
