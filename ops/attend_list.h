// attend_list.h - the row list of a query (ds4.attend) as numbered tiles, for
// the kernels that give every tile a block: attend_tiles.hip does them,
// attend_merge.hip puts them together. Constants: kHeads, kDim, kWindow,
// kCompressed (tokens a compressed row; 0: there are none), kSelected (k of the
// selection; 0: every visible row), kListTiles (the most tiles of compressed
// rows).

constexpr u32 kTile = 32;
/// Tiles that kWindow positions can touch; they come first.
constexpr u32 kRawTiles = (kWindow + kTile - 2) / kTile + 1;
constexpr u32 kTiles = kRawTiles + kListTiles;

/// Rows first, ..., first + count - 1: positions or entries of the list.
struct Tile {
  bool raw;
  u32 first, count;
};

/// Tile `number` of a query at `position`; one without rows does not exist.
DS4_DEVICE Tile tile_of(u32 number, u32 position) {
  const bool raw = number < kRawTiles;
  u32 first = position + 1 > kWindow ? position + 1 - kWindow : 0;
  u32 end = position + 1;
  if (!raw) {
    first = 0;
    end = kCompressed ? (position + 1) / (kCompressed ? kCompressed : 1) : 0;
    end = kSelected && end > kSelected ? kSelected : end;
  }
  const u32 here = (first / kTile + number - (raw ? 0 : kRawTiles)) * kTile;
  const u32 from = first > here ? first : here;
  const u32 to = end < here + kTile ? end : here + kTile;
  return {raw, from, from < to ? to - from : 0};
}

//===----------------------------------------------------------------------===//
// Scratch memory of a row: m and z of each tile and head, then its kDim sums.
//===----------------------------------------------------------------------===//

constexpr u32 kStatistics = 2 * kTiles * kHeads;
constexpr u64 kScratchRow =
    kStatistics + static_cast<u64>(kTiles) * kHeads * kDim;

DS4_DEVICE float *statistics_of(float *scratch, u32 row, u32 tile, u32 head) {
  return scratch + row * kScratchRow + 2 * (tile * kHeads + head);
}
DS4_DEVICE float *sums_of(float *scratch, u32 row, u32 tile, u32 head) {
  return scratch + row * kScratchRow + kStatistics +
         static_cast<u64>(tile * kHeads + head) * kDim;
}
