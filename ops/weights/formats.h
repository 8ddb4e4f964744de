// formats.h - sizes and levels of the storage formats.
// Written by ds4-tblgen from ir/QuantFormats.td; do not edit.
// clang-format off
#ifndef DS4_OPS_WEIGHTS_FORMATS_H
#define DS4_OPS_WEIGHTS_FORMATS_H

namespace format_f32 {
constexpr u32 kBlockElements = 1, kBlockBytes = 4;
} // namespace format_f32

namespace format_f16 {
constexpr u32 kBlockElements = 1, kBlockBytes = 2;
} // namespace format_f16

namespace format_q4_0 {
constexpr u32 kBlockElements = 32, kBlockBytes = 18;
constexpr u32 kScaleOffset = 0, kScales = 1;
} // namespace format_q4_0

namespace format_q4_1 {
constexpr u32 kBlockElements = 32, kBlockBytes = 20;
constexpr u32 kScaleOffset = 0, kScales = 1;
} // namespace format_q4_1

namespace format_q5_0 {
constexpr u32 kBlockElements = 32, kBlockBytes = 22;
constexpr u32 kScaleOffset = 0, kScales = 1;
} // namespace format_q5_0

namespace format_q5_1 {
constexpr u32 kBlockElements = 32, kBlockBytes = 24;
constexpr u32 kScaleOffset = 0, kScales = 1;
} // namespace format_q5_1

namespace format_q8_0 {
constexpr u32 kBlockElements = 32, kBlockBytes = 34;
constexpr u32 kScaleOffset = 0, kScales = 1;
} // namespace format_q8_0

namespace format_q2_K {
constexpr u32 kBlockElements = 256, kBlockBytes = 84;
constexpr u32 kScaleOffset = 80, kScales = 2;
} // namespace format_q2_K

namespace format_q3_K {
constexpr u32 kBlockElements = 256, kBlockBytes = 110;
constexpr u32 kScaleOffset = 108, kScales = 2;
} // namespace format_q3_K

namespace format_q4_K {
constexpr u32 kBlockElements = 256, kBlockBytes = 144;
constexpr u32 kScaleOffset = 0, kScales = 1;
} // namespace format_q4_K

namespace format_q5_K {
constexpr u32 kBlockElements = 256, kBlockBytes = 176;
constexpr u32 kScaleOffset = 0, kScales = 1;
} // namespace format_q5_K

namespace format_q6_K {
constexpr u32 kBlockElements = 256, kBlockBytes = 210;
constexpr u32 kScaleOffset = 208, kScales = 2;
} // namespace format_q6_K

namespace format_iq2_xxs {
constexpr u32 kBlockElements = 256, kBlockBytes = 66;
constexpr u32 kScaleOffset = 0, kScales = 1;
} // namespace format_iq2_xxs

namespace format_iq3_xxs {
constexpr u32 kBlockElements = 256, kBlockBytes = 98;
constexpr u32 kScaleOffset = 0, kScales = 1;
} // namespace format_iq3_xxs

namespace format_iq4_nl {
constexpr u32 kBlockElements = 32, kBlockBytes = 18;
constexpr u32 kScaleOffset = 0, kScales = 1;
DS4_TABLE i8 kLevels[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
} // namespace format_iq4_nl

namespace format_iq3_s {
constexpr u32 kBlockElements = 256, kBlockBytes = 110;
constexpr u32 kScaleOffset = 0, kScales = 1;
} // namespace format_iq3_s

namespace format_iq4_xs {
constexpr u32 kBlockElements = 256, kBlockBytes = 136;
constexpr u32 kScaleOffset = 0, kScales = 1;
DS4_TABLE i8 kLevels[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
} // namespace format_iq4_xs

namespace format_bf16 {
constexpr u32 kBlockElements = 1, kBlockBytes = 2;
} // namespace format_bf16

namespace format_mxfp4 {
constexpr u32 kBlockElements = 32, kBlockBytes = 17;
constexpr u32 kScaleOffset = 0, kScales = 1;
DS4_TABLE i8 kLevels[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
} // namespace format_mxfp4

namespace format_q4_0_rocmfp4 {
constexpr u32 kBlockElements = 32, kBlockBytes = 18;
constexpr u32 kScaleOffset = 16, kScales = 2;
DS4_TABLE i8 kLevels[] = {0, 1, 2, 3, 4, 6, 8, 10, 0, -1, -2, -3, -4, -6, -8, -10};
} // namespace format_q4_0_rocmfp4

namespace format_q4_0_rocmfp4_fast {
constexpr u32 kBlockElements = 32, kBlockBytes = 17;
constexpr u32 kScaleOffset = 16, kScales = 1;
DS4_TABLE i8 kLevels[] = {0, 1, 2, 3, 4, 6, 8, 10, 0, -1, -2, -3, -4, -6, -8, -10};
} // namespace format_q4_0_rocmfp4_fast

namespace format_q6_0_rocmfpx {
constexpr u32 kBlockElements = 32, kBlockBytes = 26;
constexpr u32 kScaleOffset = 24, kScales = 2;
} // namespace format_q6_0_rocmfpx

namespace format_q8_0_rocmfpx {
constexpr u32 kBlockElements = 32, kBlockBytes = 33;
constexpr u32 kScaleOffset = 32, kScales = 1;
} // namespace format_q8_0_rocmfpx

namespace format_q3_0_rocmfpx {
constexpr u32 kBlockElements = 32, kBlockBytes = 14;
constexpr u32 kScaleOffset = 12, kScales = 2;
DS4_TABLE i8 kLevels[] = {0, 1, 2, 4, 0, -1, -2, -4};
} // namespace format_q3_0_rocmfpx

namespace format_q3_1_rocmfp3_mix {
constexpr u32 kBlockElements = 32, kBlockBytes = 14;
constexpr u32 kScaleOffset = 12, kScales = 2;
} // namespace format_q3_1_rocmfp3_mix

namespace format_q2_1_rocmfp2_mix {
constexpr u32 kBlockElements = 32, kBlockBytes = 10;
constexpr u32 kScaleOffset = 8, kScales = 2;
} // namespace format_q2_1_rocmfp2_mix

namespace format_q2_0_rocmfp2 {
constexpr u32 kBlockElements = 32, kBlockBytes = 10;
constexpr u32 kScaleOffset = 8, kScales = 2;
} // namespace format_q2_0_rocmfp2

namespace format_q2_0_rocmfp2_s40 {
constexpr u32 kBlockElements = 32, kBlockBytes = 10;
constexpr u32 kScaleOffset = 8, kScales = 2;
DS4_TABLE i8 kLevels[] = {-4, -1, 1, 4};
} // namespace format_q2_0_rocmfp2_s40

namespace format_q2_0_rocmfp2_affine {
constexpr u32 kBlockElements = 32, kBlockBytes = 10;
constexpr u32 kScaleOffset = 8, kScales = 1;
} // namespace format_q2_0_rocmfp2_affine

namespace format_q2_0_rocmfp2_fp2s {
constexpr u32 kBlockElements = 32, kBlockBytes = 10;
constexpr u32 kScaleOffset = 8, kScales = 2;
} // namespace format_q2_0_rocmfp2_fp2s

#endif // DS4_OPS_WEIGHTS_FORMATS_H
