// WeightLayout.cpp - arithmetic of rows and the copies, which must keep up with
// the disk.
#include "runtime/WeightLayout.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <numeric>

namespace ds4 {

static constexpr std::string_view kNames[] = {"file", "lanes"};

std::string_view weightLayoutName(WeightLayout layout) {
  return kNames[static_cast<size_t>(layout)];
}

std::optional<WeightLayout> weightLayoutFromName(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == name)
      return static_cast<WeightLayout>(i);
  return std::nullopt;
}

/// Segments of a row: the lanes of a group.
static constexpr uint32_t kSegments = 8;
/// Most elements of a chunk: a super-block, or a lane's registers for blocks of
/// 32.
static constexpr uint32_t kChunkElements = 256;
/// Bytes of the widest load of a lane; planes and rows begin at multiples.
static constexpr uint32_t kWidest = 16;

/// Offsets in a row are of 32 bits; no format has more than 4 bytes an element.
static constexpr uint64_t kMostElements = uint64_t(1) << 29;

static uint64_t roundUp(uint64_t bytes) {
  return (bytes + kWidest - 1) / kWidest * kWidest;
}

/// Largest power of two that divides `bytes`, up to the widest load.
static uint32_t powerOfTwo(uint32_t bytes) {
  return uint32_t(1) << std::countr_zero(bytes | kWidest);
}

std::optional<LaneRow> LaneRow::of(WeightFormat format, uint64_t elements) {
  const WeightFormatInfo &info = weightFormatInfo(format);
  const uint64_t blocks = elements / info.blockElements;
  if (!info.quantised || elements == 0 || elements % info.rowMultiple != 0 ||
      elements > kMostElements || blocks % kSegments != 0)
    return std::nullopt;
  LaneRow row{};
  row.fileBytes = weightRowBytes(format, elements);
  row.blockBytes = info.blockBytes;
  row.segmentBlocks = static_cast<uint32_t>(blocks / kSegments);
  row.chunkBlocks =
      std::gcd(row.segmentBlocks, kChunkElements / info.blockElements);
  uint64_t end = 0;
  for (uint32_t i = 0; i < 2; ++i) {
    Plane &plane = row.planes[i];
    plane.partOffset = i == 0 ? 0 : info.split;
    plane.partBytes = i == 0 ? info.split : info.blockBytes - info.split;
    plane.begin = static_cast<uint32_t>(end);
    plane.unit = powerOfTwo(row.chunkBlocks * plane.partBytes);
    end = roundUp(end + blocks * plane.partBytes);
  }
  row.bytes = end;
  return row;
}

namespace {

/// One direction of the copy between a row and a packed row.
enum class Way { pack, unpack };

template <Way kWay>
inline void copyBytes(std::byte *inFile, std::byte *packed, uint32_t count) {
  if constexpr (kWay == Way::pack)
    std::memcpy(packed, inFile, count);
  else
    std::memcpy(inFile, packed, count);
}

/// One plane of a row; sizes are constants, so that each copy is a move. Goes
/// through as few blocks at a time as are whole units.
template <Way kWay, uint32_t kPart, uint32_t kUnit>
void copyPlane(const LaneRow &row, const LaneRow::Plane &plane,
               std::byte *inFile, std::byte *packed) {
  constexpr uint32_t kBytes = std::lcm(kPart, kUnit);
  std::byte parts[kBytes];
  inFile += plane.partOffset;
  for (uint32_t segment = 0; segment < kSegments; ++segment) {
    std::byte *units = packed + plane.begin + segment * kUnit;
    for (uint32_t block = 0; block < row.segmentBlocks;
         block += kBytes / kPart) {
      const auto copyParts = [&] {
        for (uint32_t i = 0; i < kBytes / kPart; ++i)
          copyBytes<kWay>(inFile + i * row.blockBytes, parts + i * kPart,
                          kPart);
      };
      const auto copyUnits = [&] {
        for (uint32_t i = 0; i < kBytes / kUnit; ++i)
          copyBytes<kWay>(parts + i * kUnit, units + kSegments * i * kUnit,
                          kUnit);
      };
      if constexpr (kWay == Way::pack) {
        copyParts();
        copyUnits();
      } else {
        copyUnits();
        copyParts();
      }
      inFile += kBytes / kPart * row.blockBytes;
      units += kSegments * kBytes;
    }
  }
}

/// Calls copyPlane with the plane's unit.
template <Way kWay, uint32_t kPart>
bool copyUnits(const LaneRow &row, const LaneRow::Plane &plane,
               std::byte *inFile, std::byte *packed) {
  if (plane.partBytes != kPart)
    return false;
  const auto copy = [&]<uint32_t... kUnits>() {
    return (
        (plane.unit == kUnits &&
         (copyPlane<kWay, kPart, kUnits>(row, plane, inFile, packed), true)) ||
        ...);
  };
  return copy.template operator()<16, 8, 4, 2, 1>();
}

/// Both planes; every part that a format has is listed.
template <Way kWay>
void copyRow(const LaneRow &row, std::byte *inFile, std::byte *packed) {
  const auto copy = [&]<uint32_t... kParts>(const LaneRow::Plane &plane) {
    return (copyUnits<kWay, kParts>(row, plane, inFile, packed) || ...);
  };
  for (const LaneRow::Plane &plane : row.planes) {
    [[maybe_unused]] const bool known =
        copy.template operator()<1, 2, 4, 8, 12, 14, 16, 20, 24, 32, 64, 80, 96,
                                 128, 160, 208>(plane);
    assert(known && "a format whose parts are not listed");
  }
}

} // namespace

void LaneRow::pack(const std::byte *row, std::byte *packed) const {
  for (const Plane &plane : planes) {
    const uint64_t end =
        plane.begin + uint64_t(kSegments) * segmentBlocks * plane.partBytes;
    std::fill(packed + end, packed + roundUp(end), std::byte{0});
  }
  // Packing only reads `row`.
  copyRow<Way::pack>(*this, const_cast<std::byte *>(row), packed);
}

void LaneRow::pack(const std::byte *rows, uint64_t count,
                   std::byte *packed) const {
  for (uint64_t i = 0; i < count; ++i)
    pack(rows + i * fileBytes, packed + i * bytes);
}

void LaneRow::unpack(const std::byte *packed, std::byte *row) const {
  copyRow<Way::unpack>(*this, row, const_cast<std::byte *>(packed));
}

uint64_t deviceRowBytes(WeightFormat format, WeightLayout layout,
                        uint64_t elements) {
  if (layout == WeightLayout::file)
    return weightRowBytes(format, elements);
  std::optional<LaneRow> row = LaneRow::of(format, elements);
  assert(row && "a row without lanes");
  return row->bytes;
}

} // namespace ds4
