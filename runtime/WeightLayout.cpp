// WeightLayout.cpp - the copies are by the largest power of two that divides
// both a part and a unit, so that no piece is cut and each is one instruction.
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

/// Calls copy(offset in the row, offset in the packed row) for every piece of
/// kPiece bytes of a plane.
template <uint32_t kPiece, typename Copy>
static void eachPiece(const LaneRow &row, const LaneRow::Plane &plane,
                      Copy copy) {
  const uint64_t inUnit = plane.unit - 1;
  for (uint64_t segment = 0; segment < kSegments; ++segment) {
    uint64_t from =
        segment * row.segmentBlocks * row.blockBytes + plane.partOffset;
    const uint64_t to = plane.begin + segment * plane.unit;
    uint64_t at = 0; // in the segment's parts
    for (uint32_t block = 0; block < row.segmentBlocks; ++block) {
      for (uint32_t i = 0; i < plane.partBytes; i += kPiece, at += kPiece)
        copy(from + i, to + (at & ~inUnit) * kSegments + (at & inUnit));
      from += row.blockBytes;
    }
  }
}

/// Calls copy(piece, offset, offset) as eachPiece does, for both planes;
/// `piece` is an integral constant.
template <typename Copy> static void eachPiece(const LaneRow &row, Copy copy) {
  const auto walk = [&]<uint32_t kPiece>(const LaneRow::Plane &plane) {
    eachPiece<kPiece>(row, plane, [&](uint64_t inFile, uint64_t packed) {
      copy.template operator()<kPiece>(inFile, packed);
    });
  };
  for (const LaneRow::Plane &plane : row.planes)
    switch (std::min(plane.unit, powerOfTwo(plane.partBytes))) {
    case 1:
      walk.template operator()<1>(plane);
      break;
    case 2:
      walk.template operator()<2>(plane);
      break;
    case 4:
      walk.template operator()<4>(plane);
      break;
    case 8:
      walk.template operator()<8>(plane);
      break;
    default:
      walk.template operator()<16>(plane);
    }
}

void LaneRow::pack(const std::byte *row, std::byte *packed) const {
  for (const Plane &plane : planes) {
    const uint64_t end =
        plane.begin + uint64_t(kSegments) * segmentBlocks * plane.partBytes;
    std::fill(packed + end, packed + roundUp(end), std::byte{0});
  }
  eachPiece(*this, [&]<uint32_t kPiece>(uint64_t inFile, uint64_t at) {
    std::memcpy(packed + at, row + inFile, kPiece);
  });
}

void LaneRow::unpack(const std::byte *packed, std::byte *row) const {
  eachPiece(*this, [&]<uint32_t kPiece>(uint64_t inFile, uint64_t at) {
    std::memcpy(row + inFile, packed + at, kPiece);
  });
}

uint64_t deviceRowBytes(WeightFormat format, WeightLayout layout,
                        uint64_t elements) {
  if (layout == WeightLayout::file)
    return weightRowBytes(format, elements);
  std::optional<LaneRow> row = LaneRow::of(format, elements);
  assert(row && "a row without lanes");
  return row->bytes;
}

void RowPacker::feed(std::span<const std::byte> bytes, std::byte *packed) {
  if (!cut.empty()) {
    const uint64_t some =
        std::min<uint64_t>(row.fileBytes - cut.size(), bytes.size());
    cut.insert(cut.end(), bytes.begin(), bytes.begin() + some);
    bytes = bytes.subspan(some);
    if (cut.size() < row.fileBytes)
      return;
    row.pack(cut.data(), packed);
    packed += row.bytes;
  }
  for (; bytes.size() >= row.fileBytes; bytes = bytes.subspan(row.fileBytes)) {
    row.pack(bytes.data(), packed);
    packed += row.bytes;
  }
  cut.assign(bytes.begin(), bytes.end());
}

} // namespace ds4
