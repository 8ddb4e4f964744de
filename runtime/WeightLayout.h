// WeightLayout.h - where the bytes of a weight lie in device memory. The loader
// moves them there while it streams the file; what a block's bytes mean does
// not change (docs/formats.md, "Layouts").
#ifndef DS4_RUNTIME_WEIGHTLAYOUT_H
#define DS4_RUNTIME_WEIGHTLAYOUT_H

#include "runtime/WeightFormats.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ds4 {

enum class WeightLayout : uint8_t {
  file,  ///< a row is whole blocks, as in the file
  lanes, ///< a row is two planes of units, as LaneRow says
};

std::string_view weightLayoutName(WeightLayout layout);
std::optional<WeightLayout> weightLayoutFromName(std::string_view name);

/// A row in layout `lanes`, made for the segmented order of sums, in which lane
/// s of a group of 8 does segment s of the row (ir/Ds4Dialect.td).
///
/// Every block is cut in two parts at the format's `split`. The first parts go
/// to plane 0, the second parts to plane 1. In a plane the parts of a segment,
/// one behind the other, are cut into units; unit i of segment s lies at
///
///   begin + (8 i + s) * unit
///
/// so that one load by each of the 8 lanes reads 8 * unit consecutive bytes. A
/// lane reads whole chunks, which are whole units in both planes.
struct LaneRow {
  struct Plane {
    uint32_t begin;      ///< offset in the row, a multiple of 16
    uint32_t partOffset; ///< of the part in its block
    uint32_t partBytes;
    uint32_t unit; ///< bytes: the largest power of two up to 16 that divides
                   ///< a chunk's parts
  };

  uint64_t fileBytes; ///< of the row in the file
  uint64_t bytes;     ///< from one row to the next, a multiple of 16
  uint32_t blockBytes;
  uint32_t segmentBlocks; ///< blocks of a segment
  uint32_t chunkBlocks;   ///< blocks of a chunk: at most 256 elements
  std::array<Plane, 2> planes;

  /// The row of `elements` elements; nothing if the format has no blocks of
  /// that many or the 8 segments are not whole blocks.
  static std::optional<LaneRow> of(WeightFormat format, uint64_t elements);

  /// Moves one row: `fileBytes` bytes in file order, `bytes` bytes packed.
  /// Padding becomes zero.
  void pack(const std::byte *row, std::byte *packed) const;
  /// `count` rows, one behind the other.
  void pack(const std::byte *rows, uint64_t count, std::byte *packed) const;
  void unpack(const std::byte *packed, std::byte *row) const;
};

/// Bytes from one row to the next in device memory. `lanes` needs a row that
/// has a LaneRow.
uint64_t deviceRowBytes(WeightFormat format, WeightLayout layout,
                        uint64_t elements);

} // namespace ds4

#endif // DS4_RUNTIME_WEIGHTLAYOUT_H
