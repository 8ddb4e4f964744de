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

struct TileMemory {
  u8 codes[kSegments][kColumns][kLineBytes];
  u8 levels[kRowGroups][kSegments][kGroupRows][kLineBytes];
  float scales[kSegments][kStage][kColumns];
  float weight_scales[kRowGroups][kSegments][kStage][kScales][kGroupRows];
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

  /// Blocks `block`, ... of the segment.
  DS4_DEVICE void stage(u32 block, TileMemory &memory) const {
    const u32 segment = wave() % kSegments;
    const u32 at = segment * kBlocksOfSegment + block;
    const u32 unit = lane() % kStage * 32;
    u32 codes[kLoads][8];
    float scales[kOwn / kWave][kStage];
#pragma unroll
    for (u32 i = 0; i < kLoads; ++i)
      load_words(codes[i], vector(codes_at[i]) + 32 * at + unit);
#pragma unroll
    for (u32 i = 0; i < kOwn / kWave; ++i)
      load_aligned<4 * kStage>(reinterpret_cast<u8 *>(scales[i]),
                               vector(scales_at[i]) + kIn + 4 * at);
#pragma unroll
    for (u32 i = 0; i < kLoads; ++i) {
      order_codes(codes[i]);
      store_words(memory.codes[segment][coded(i)] + unit, codes[i]);
    }
#pragma unroll
    for (u32 i = 0; i < kOwn / kWave; ++i)
#pragma unroll
      for (u32 b = 0; b < kStage; ++b)
        memory.scales[segment][b][scaled(i)] = scales[i][b];
  }

private:
  static constexpr u32 kOwn = kColumns / kRowGroups;   ///< vectors of the wave
  static constexpr u32 kLoads = kOwn * kStage / kWave; ///< of 32 codes
  static_assert(kVectorBytes % 16 == 0);

  /// The vectors whose codes and scales the lane copies.
  DS4_DEVICE static u32 coded(u32 i) {
    return wave() / kSegments * kOwn + (i * kWave + lane()) / kStage;
  }
  DS4_DEVICE static u32 scaled(u32 i) {
    return wave() / kSegments * kOwn + i * kWave + lane();
  }
  DS4_DEVICE const u8 *vector(u32 place) const {
    return x + static_cast<u64>(place) * 16;
  }

  const u8 *x;
  u32 codes_at[kLoads], scales_at[kOwn / kWave]; ///< in units of 16 bytes
};

/// Decodes blocks `block`, ... of the segment of the lane's own row to LDS.
template <typename... Books>
DS4_DEVICE void stage_row(const u8 *row, u32 block, TileMemory &memory,
                          Books... books) {
  const u32 segment = wave() % kSegments, group = wave() / kSegments;
  u8 blocks[kStage * kBlockBytes];
  load_blocks<kStage>(row, segment, block, kBlocksOfSegment, blocks);
#pragma unroll
  for (u32 b = 0; b < kStage; ++b) {
    u32 levels[8];
    levels_of(blocks + b * kBlockBytes, levels, books...);
    store_words(memory.levels[group][segment][lane()] + 32 * b, levels);
#pragma unroll
    for (u32 part = 0; part < kScales; ++part)
      memory.weight_scales[group][segment][b][part][lane()] =
          scale_of(blocks + b * kBlockBytes, part, books...);
  }
}

/// sums += block b of the stage, an fma a scale.
DS4_DEVICE void add_block(const TileMemory &memory, u32 b, u32 count,
                          TileSums &sums) {
  const u32 segment = wave() % kSegments, group = wave() / kSegments;
  u32 levels[kRowTiles][kTileRegisters];
  float weight_scales[kRowTiles][kScales][8];
#pragma unroll
  for (u32 r = 0; r < kRowTiles; ++r) {
#pragma unroll
    for (u32 i = 0; i < kTileRegisters; ++i)
      levels[r][i] = load_word(
          memory.levels[group][segment][kTileLines * r + tile_line(i)] +
          32 * b + tile_first(i));
#pragma unroll
    for (u32 part = 0; part < kScales; ++part)
#pragma unroll
      for (u32 e = 0; e < 8; ++e)
        weight_scales[r][part][e] =
            memory.weight_scales[group][segment][b][part]
                                [kTileLines * r + tile_b(e)];
  }
#pragma unroll
  for (u32 v = 0; v < kVectorTiles; ++v) {
    if (kTileLines * v >= count)
      break;
    u32 codes[kTileRegisters];
    float scales[8];
#pragma unroll
    for (u32 i = 0; i < kTileRegisters; ++i)
      codes[i] =
          load_word(memory.codes[segment][kTileLines * v + tile_line(i)] +
                    32 * b + tile_first(i));
#pragma unroll
    for (u32 e = 0; e < 8; ++e)
      scales[e] = memory.scales[segment][b][kTileLines * v + tile_a(e)];
#pragma unroll
    for (u32 r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (u32 part = 0; part < kScales; ++part) {
        i32 products[8];
        if constexpr (kScales == 1)
          tile_mma_i8(codes, levels[r], products);
        else
          tile_mma_half_i8(codes, levels[r], part, products);
#pragma unroll
        for (u32 e = 0; e < 8; ++e)
          sums[v][r][e] =
              fma_f32(tile_value(products[e]),
                      weight_scales[r][part][e] * scales[e], sums[v][r][e]);
      }
    // Or the products of all tiles would be kept and added at the end.
#pragma unroll
    for (u32 r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (u32 e = 0; e < 8; ++e)
        finish(sums[v][r][e]);
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
  const VectorStager vectors(x, count, vector_at);
  const u32 group = wave() / kSegments, segment = wave() % kSegments;
  const u32 own = group * kGroupRows + lane();
  const u8 *row =
      rows +
      static_cast<u64>(own < row_count ? own : row_count - 1) * kRowBytes;
  TileSums sums = {};
#pragma unroll 1
  for (u32 block = 0; block < kBlocksOfSegment; block += kStage) {
    barrier();
    vectors.stage(block, memory);
    if constexpr (kBookLevels != 0)
      stage_row(row, block, memory, books);
    else
      stage_row(row, block, memory);
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
