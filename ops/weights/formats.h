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

namespace format_q8_0 {
constexpr u32 kBlockElements = 32, kBlockBytes = 34;
constexpr u32 kScaleOffset = 0, kScales = 1;
} // namespace format_q8_0

namespace format_q6_K {
constexpr u32 kBlockElements = 256, kBlockBytes = 210;
constexpr u32 kScaleOffset = 208, kScales = 2;
} // namespace format_q6_K

namespace format_bf16 {
constexpr u32 kBlockElements = 1, kBlockBytes = 2;
} // namespace format_bf16

namespace format_q4_0_rocmfp4_fast {
constexpr u32 kBlockElements = 32, kBlockBytes = 17;
constexpr u32 kScaleOffset = 16, kScales = 1;
DS4_TABLE i8 kLevels[] = {0, 1, 2, 3, 4, 6, 8, 10, 0, -1, -2, -3, -4, -6, -8, -10};
} // namespace format_q4_0_rocmfp4_fast

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

#endif // DS4_OPS_WEIGHTS_FORMATS_H
