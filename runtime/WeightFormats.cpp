// WeightFormats.cpp - the table behind WeightFormats.h. Ids below 100 are
// ggml's; 100 and up are ROCmFPX's (docs/formats.md).
#include "runtime/WeightFormats.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace ds4 {

using enum WeightFormat;

static constexpr WeightFormatInfo kFormats[] = {
#define DS4_FORMAT_ROWS
#include "runtime/WeightFormats.inc"
};

std::span<const WeightFormatInfo> weightFormats() { return kFormats; }

std::optional<WeightFormat> weightFormatFromId(uint32_t id) {
  for (const WeightFormatInfo &info : kFormats)
    if (info.typeId == id)
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

/// In the order of Fp2Reading.
static constexpr std::pair<std::string_view, WeightFormat> kFp2Readings[] = {
    {"dual", q2_0_rocmfp2},
    {"affine", q2_0_rocmfp2_affine},
    {"fp2s", q2_0_rocmfp2_fp2s},
    {"s40", q2_0_rocmfp2_s40},
};

std::optional<Fp2Reading> fp2ReadingFromName(std::string_view name) {
  for (size_t i = 0; i < std::size(kFp2Readings); ++i)
    if (kFp2Readings[i].first == name)
      return static_cast<Fp2Reading>(i);
  return std::nullopt;
}

WeightFormat fp2Format(Fp2Reading reading) {
  return kFp2Readings[static_cast<size_t>(reading)].second;
}

std::string_view fp2ReadingName(WeightFormat format) {
  for (const auto &[name, ofName] : kFp2Readings)
    if (ofName == format)
      return name;
  return {};
}

bool weightFormatMayBe(WeightFormat format, uint32_t typeId) {
  if (weightFormatInfo(format).typeId == typeId)
    return true;
  // The reading whose own id is 111.
  return typeId == weightFormatInfo(q2_0_rocmfp2).typeId &&
         format == q2_0_rocmfp2_s40;
}

uint64_t weightRowBytes(WeightFormat format, uint64_t elements) {
  const WeightFormatInfo &info = weightFormatInfo(format);
  assert(elements % info.blockElements == 0 && "a row of partial blocks");
  return elements / info.blockElements * info.blockBytes;
}

uint64_t bookBytes(WeightFormat format, bool int8) {
  const uint64_t levels = weightFormatInfo(format).bookLevels;
  return 2 * (int8 ? levels + sizeof(float) : levels * sizeof(float));
}

} // namespace ds4
