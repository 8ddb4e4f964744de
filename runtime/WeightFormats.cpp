// WeightFormats.cpp - the table behind WeightFormats.h. Ids below 100 are
// ggml's; 100 and up are ROCmFPX's (docs/formats.md).
#include "runtime/WeightFormats.h"

#include <algorithm>
#include <cassert>

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

uint64_t weightRowBytes(WeightFormat format, uint64_t elements) {
  const WeightFormatInfo &info = weightFormatInfo(format);
  assert(elements % info.blockElements == 0 && "a row of partial blocks");
  return elements / info.blockElements * info.blockBytes;
}

} // namespace ds4
