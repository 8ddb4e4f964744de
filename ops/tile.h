// tile.h - a tile of a product by a block with integer matrix instructions:
// kTileRows rows of a weight times up to kColumns vectors of int8 codes, the
// same bits as one product after another (layouts/). The integer sum of 32
// columns is exact in any order; its fma is that of the segmented order
// (ir/Ds4Dialect.td), in which a wave does a segment of 32 rows; the partial
// sums of the eight segments meet in LDS.
//
// Waves: segment wave() % 8 of the row group wave() / 8. All that they multiply
// goes through LDS, kStage blocks of 32 columns at a time: the codes of the
// vectors as they are, those of the weights decoded to int8.
//
// Constants that codegen prints: kIn, kRowBytes, kBookLevels, kColumns, and
//
// | constant | |
// |---|---|
// | kStage | blocks of a segment in LDS at a time; divides the segment |
// | kRowGroups | groups of 32 rows |
// | kSharedBytes | what the launch reserves |
//
// The unit has included tile_mma.h, the decoder and the layout of the weight.
#include "operands.h"

constexpr u32 kSegments = 8, kTileLines = 16;
constexpr u32 kGroupRows = 32, kTileRows = kGroupRows * kRowGroups;
constexpr u32 kBlocksOfSegment = kIn / 32 / kSegments;
static_assert(kIn % 256 == 0 && kBlocksOfSegment % kStage == 0);
static_assert(kThreads == kSegments * kRowGroups * kWave);

/// Bytes of the staged codes of a vector or row: the padding keeps the lanes of
/// a tile in different banks.
constexpr u32 kLineBytes = 32 * kStage + 16;

/// Rows of a row group in a segment. Lanes that do neighbouring segments of a
/// row store in different banks.
struct StagedRows {
  u8 levels[kGroupRows][kLineBytes];
  u8 padding[16];
};
struct StagedScales {
  float of[kStage][kScales][kGroupRows];
  float padding[4];
};

struct TileMemory {
  u8 codes[kSegments][kColumns][kLineBytes];
  StagedRows rows[kRowGroups][kSegments];
  float scales[kSegments][kStage][kColumns];
  StagedScales weight_scales[kRowGroups][kSegments];
};

/// Sums of kTileLines vectors before the segments are added.
struct TilePartials {
  float of[kSegments][kTileLines][kTileRows + 8];
};

static_assert((sizeof(TileMemory) > sizeof(TilePartials)
                   ? sizeof(TileMemory)
                   : sizeof(TilePartials)) == kSharedBytes);

constexpr u32 kRowTiles = kGroupRows / kTileLines;
constexpr u32 kVectorTiles = kColumns / kTileLines;
typedef float TileSums[kVectorTiles][kRowTiles][8];

/// Copies the vectors' codes and scales of a stage to LDS; the waves of a
/// segment share the vectors.
class VectorStager {
public:
  /// `vector_at(v)`: number of vector v < count in `x`. Vectors that are not
  /// there are copies of the last one.
  template <typename VectorAt>
  DS4_DEVICE VectorStager(const u8 *x, u32 count, VectorAt vector_at) : x(x) {
    auto place = [&](u32 v) {
      return vector_at(v < count ? v : count - 1) * (kVectorBytes / 16);
    };
    for (u32 i = 0; i < kLoads; ++i)
      codes_at[i] = place(coded(i));
    for (u32 i = 0; i < kOwn / kWave; ++i)
      scales_at[i] = place(scaled(i));
  }

  /// Begins to copy blocks `block`, ... of the segment.
  DS4_DEVICE void request(u32 block, TileMemory &memory) {
    const u32 segment = wave() % kSegments;
    const u32 at = segment * kBlocksOfSegment + block;
    const u32 unit = lane() % kUnits * 16;
#pragma unroll
    for (u32 i = 0; i < kLoads; ++i)
      copy_16(memory.codes[segment][coded(i)] + unit,
              vector(codes_at[i]) + 32 * at + unit);
#pragma unroll
    for (u32 i = 0; i < kOwn / kWave; ++i)
      load_aligned<4 * kStage>(reinterpret_cast<u8 *>(scales[i]),
                               vector(scales_at[i]) + kIn + 4 * at);
  }

  /// Finishes that; a barrier comes after.
  DS4_DEVICE void finish_copies(TileMemory &memory) const {
#pragma unroll
    for (u32 i = 0; i < kOwn / kWave; ++i)
#pragma unroll
      for (u32 b = 0; b < kStage; ++b)
        memory.scales[wave() % kSegments][b][scaled(i)] = scales[i][b];
    copies_done();
  }

private:
  static constexpr u32 kOwn = kColumns / kRowGroups; ///< vectors of the wave
  static constexpr u32 kUnits = 2 * kStage;          ///< of 16 codes, a vector
  static constexpr u32 kLoads = kOwn * kUnits / kWave;
  static_assert(kVectorBytes % 16 == 0);

  /// The vectors whose codes and scales the lane copies.
  DS4_DEVICE static u32 coded(u32 i) {
    return wave() / kSegments * kOwn + (i * kWave + lane()) / kUnits;
  }
  DS4_DEVICE static u32 scaled(u32 i) {
    return wave() / kSegments * kOwn + i * kWave + lane();
  }
  DS4_DEVICE const u8 *vector(u32 place) const {
    return x + static_cast<u64>(place) * 16;
  }

  const u8 *x;
  u32 codes_at[kLoads], scales_at[kOwn / kWave]; ///< in units of 16 bytes
  float scales[kOwn / kWave][kStage];
};

/// Decodes blocks of the tile's rows to LDS. A lane does one segment of a row,
/// its neighbours the others, so that together they read whole lines.
class RowStager {
public:
  DS4_DEVICE RowStager(const u8 *rows, u32 row_count)
      : row(rows + static_cast<u64>(own() < row_count ? own() : row_count - 1) *
                       kRowBytes) {}

  /// Loads blocks `block`, ... of the segment.
  DS4_DEVICE void load(u32 block) {
    load_blocks<kStage>(row, segment(), block, kBlocksOfSegment, blocks);
  }

  template <typename... Books>
  DS4_DEVICE void store(TileMemory &memory, Books... books) const {
    const u32 group = own() / kGroupRows, line = own() % kGroupRows;
    StagedRows &to = memory.rows[group][segment()];
    StagedScales &scales = memory.weight_scales[group][segment()];
#pragma unroll
    for (u32 b = 0; b < kStage; ++b) {
      u32 levels[8];
      levels_of(blocks + b * kBlockBytes, levels, books...);
      restore_levels(levels);
      store_words(to.levels[line] + 32 * b, levels);
#pragma unroll
      for (u32 part = 0; part < kScales; ++part)
        scales.of[b][part][line] =
            scale_of(blocks + b * kBlockBytes, part, books...);
    }
  }

private:
  DS4_DEVICE static u32 own() { return thread_x() / kSegments; }
  DS4_DEVICE static u32 segment() { return thread_x() % kSegments; }

  const u8 *row;
  u8 blocks[kStage * kBlockBytes];
};

/// Codes and scales of a block of kTileLines vectors, as a lane has them.
struct VectorTile {
  u32 codes[kTileRegisters];
  float scales[8];

  DS4_DEVICE void load(const TileMemory &memory, u32 b, u32 v) {
    const u32 segment = wave() % kSegments;
#pragma unroll
    for (u32 i = 0; i < kTileRegisters; ++i)
      codes[i] =
          load_word(memory.codes[segment][kTileLines * v + tile_line(i)] +
                    32 * b + tile_first(i));
#pragma unroll
    for (u32 e = 0; e < 8; ++e)
      scales[e] = memory.scales[segment][b][kTileLines * v + tile_a(e)];
  }
};

/// Levels and scales of a block of the wave's rows. Products of one tile of
/// rows and one scale are a turn.
struct RowTiles {
  u32 levels[kRowTiles][kTileRegisters];
  float scales[kRowTiles][kScales][8];

  DS4_DEVICE void load(const TileMemory &memory, u32 b) {
    const u32 segment = wave() % kSegments, group = wave() / kSegments;
    const StagedRows &rows = memory.rows[group][segment];
    const StagedScales &of_rows = memory.weight_scales[group][segment];
#pragma unroll
    for (u32 r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (u32 i = 0; i < kTileRegisters; ++i)
        levels[r][i] = load_word(rows.levels[kTileLines * r + tile_line(i)] +
                                 32 * b + tile_first(i));
#pragma unroll
      for (u32 part = 0; part < kScales; ++part)
#pragma unroll
        for (u32 e = 0; e < 8; ++e)
          scales[r][part][e] = of_rows.of[b][part][kTileLines * r + tile_b(e)];
    }
  }

  DS4_DEVICE void multiply(const VectorTile &x, u32 turn,
                           i32 (&products)[8]) const {
    if constexpr (kScales == 1)
      tile_mma_i8(x.codes, levels[turn], products);
    else
      tile_mma_half_i8(x.codes, levels[turn / kScales], turn % kScales,
                       products);
  }
};

/// sums += block b of the stage, an fma a scale. If tiles overlap, the matrix
/// instructions of a turn run while the sums of the turn before are made.
DS4_DEVICE void add_block(const TileMemory &memory, u32 b, u32 count,
                          TileSums &sums) {
  constexpr u32 kTurns = kRowTiles * kScales;
  RowTiles rows;
  rows.load(memory, b);
  VectorTile x[2];
  i32 products[2][8];
  if (kTilesOverlap) {
    x[0].load(memory, b, 0);
    rows.multiply(x[0], 0, products[0]);
  }
#pragma unroll
  for (u32 v = 0; v < kVectorTiles; ++v) {
    VectorTile &own = x[kTilesOverlap ? v % 2 : 0];
    VectorTile &next = x[(v + 1) % 2];
    if (!kTilesOverlap)
      own.load(memory, b, v);
    else if (v + 1 < kVectorTiles)
      next.load(memory, b, v + 1);
#pragma unroll
    for (u32 turn = 0; turn < kTurns; ++turn) {
      const u32 number = kTilesOverlap ? v * kTurns + turn : 0;
      i32(&ready)[8] = products[number % 2];
      i32(&coming)[8] = products[(number + 1) % 2];
      if (!kTilesOverlap)
        rows.multiply(own, turn, ready);
      else if (turn + 1 < kTurns)
        rows.multiply(own, turn + 1, coming);
      else if (v + 1 < kVectorTiles)
        rows.multiply(next, 0, coming);
      const u32 r = turn / kScales, part = turn % kScales;
#pragma unroll
      for (u32 e = 0; e < 8; ++e)
        sums[v][r][e] =
            fma_f32(tile_value(ready[e]),
                    rows.scales[r][part][e] * own.scales[e], sums[v][r][e]);
      // Or the products of all tiles would be kept and added at the end.
#pragma unroll
      for (u32 e = 0; e < 8; ++e)
        finish(sums[v][r][e]);
    }
    if (kTileLines * (v + 1) >= count)
      break;
  }
}

/// store(v, i, rows[i] . x[vector_at(v)]) for v < count <= kColumns and
/// i < row_count, i < kTileRows. By the whole block; `books` are the expert's.
template <typename VectorAt, typename Store>
DS4_DEVICE void tile_products(const u8 *rows, u32 row_count, const u8 *books,
                              const u8 *x, u32 count, VectorAt vector_at,
                              Store store) {
  DS4_BLOCK_MEMORY(bytes, kSharedBytes);
  TileMemory &memory = *reinterpret_cast<TileMemory *>(bytes);
  VectorStager vectors(x, count, vector_at);
  const u32 group = wave() / kSegments, segment = wave() % kSegments;
  RowStager stager(rows, row_count);
  TileSums sums = {};
#pragma unroll 1
  for (u32 block = 0; block < kBlocksOfSegment; block += kStage) {
    barrier();
    vectors.request(block, memory);
    stager.load(block);
    if constexpr (kBookLevels != 0)
      stager.store(memory, books);
    else
      stager.store(memory);
    vectors.finish_copies(memory);
    barrier();
#pragma unroll 1
    for (u32 b = 0; b < kStage; ++b)
      add_block(memory, b, count, sums);
  }
  TilePartials &partials = *reinterpret_cast<TilePartials *>(bytes);
#pragma unroll
  for (u32 v = 0; v < kVectorTiles; ++v) {
    if (kTileLines * v >= count)
      break;
    barrier();
#pragma unroll
    for (u32 r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (u32 e = 0; e < 8; ++e)
        partials.of[segment][tile_a(e)][group * kGroupRows + kTileLines * r +
                                        tile_b(e)] = sums[v][r][e];
    barrier();
    for (u32 i = thread_x(); i < kTileLines * kTileRows; i += kThreads) {
      const u32 line = i / kTileRows, own_row = i % kTileRows;
      float parts[kSegments];
      for (u32 s = 0; s < kSegments; ++s)
        parts[s] = partials.of[s][line][own_row];
      if (kTileLines * v + line < count && own_row < row_count)
        store(kTileLines * v + line, own_row, tree8(parts));
    }
  }
}
