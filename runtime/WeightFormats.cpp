// WeightFormats.cpp - the table behind WeightFormats.h. Ids 0..30 are ggml's;
// 100 and up are ROCmFPX's (docs/formats.md).
#include "runtime/WeightFormats.h"

#include <algorithm>
#include <cassert>

namespace ds4 {

using enum WeightFormat;

static constexpr WeightFormatInfo kFormats[] = {
    // format, name, elements, bytes, row multiple, book levels, quantised
    {f32, "f32", 1, 4, 1, 0, false},
    {f16, "f16", 1, 2, 1, 0, false},
    {q8_0, "q8_0", 32, 34, 32, 0, true},
    {q6_K, "q6_K", 256, 210, 256, 0, true},
    {i32, "i32", 1, 4, 1, 0, false},
    {bf16, "bf16", 1, 2, 1, 0, false},
    {q4_0_rocmfp4_fast, "q4_0_rocmfp4_fast", 32, 17, 32, 0, true},
    {q3_0_rocmfpx, "q3_0_rocmfpx", 32, 14, 32, 0, true},
    {q3_1_rocmfp3_mix, "q3_1_rocmfp3_mix", 32, 14, 32, 8, true},
    {q2_1_rocmfp2_mix, "q2_1_rocmfp2_mix", 32, 10, 128, 4, true},
    {q2_0_rocmfp2, "q2_0_rocmfp2", 32, 10, 32, 0, true},
};

std::span<const WeightFormatInfo> weightFormats() { return kFormats; }

std::optional<WeightFormat> weightFormatFromId(uint32_t id) {
  for (const WeightFormatInfo &info : kFormats)
    if (static_cast<uint32_t>(info.format) == id)
      return info.format;
  return std::nullopt;
}

std::optional<WeightFormat> weightFormatFromName(std::string_view name) {
  for (const WeightFormatInfo &info : kFormats)
    if (info.name == name)
      return info.format;
  return std::nullopt;
}

const WeightFormatInfo &weightFormatInfo(WeightFormat format) {
  const auto *it =
      std::ranges::find(kFormats, format, &WeightFormatInfo::format);
  assert(it != std::end(kFormats) && "a format without a table row");
  return *it;
}

uint64_t weightRowBytes(WeightFormat format, uint64_t elements) {
  const WeightFormatInfo &info = weightFormatInfo(format);
  assert(elements % info.blockElements == 0 && "a row of partial blocks");
  return elements / info.blockElements * info.blockBytes;
}

} // namespace ds4
