// tile.h - a tile of a product by a block with matrix instructions: kTileRows
// rows of a weight times up to kColumns vectors of int8 codes, the same bits as
// one product after another (layouts/). The sum of a scale's products is exact
// in any order (tile_mma.h); its fma is that of the segmented order
// (ir/Ds4Dialect.td).
//
// A group of four waves does two of the eight segments, one after the other,
// kStage blocks of 32 columns at a time: its waves decode the rows to LDS
// together, and each multiplies them with 16 vectors, whose codes it has in LDS
// by itself. Groups do not wait for one another before they add the segments.
//
// Constants that codegen prints: kIn, kRowBytes, kBookLevels, kColumns, and
//
// | constant | |
// |---|---|
// | kStage | blocks of a segment in LDS at a time; divides the segment |
// | kScaledLevels | 1: scales are UE4M3, times a power of two at most |
// | kPartialTiles | tiles of vectors of which segments are added at a time |
// | kSharedBytes | what the launch reserves |
//
// The unit has included tile_mma.h, the decoder and the layout of the weight.
#include "operands.h"

constexpr u32 kWaveGroups = 4, kGroupWaves = kColumns / kTileLines;
constexpr u32 kGroupThreads = kGroupWaves * kWave;
constexpr u32 kBlocksOfSegment = kIn / 32 / 8;
constexpr u32 kStages = kBlocksOfSegment / kStage; ///< of a segment
static_assert(kIn % 256 == 0 && kBlocksOfSegment % kStage == 0 && kStage <= 2);
static_assert(kThreads == kWaveGroups * kGroupThreads);

/// Whether values of rows are levels times their scale, and times kHalfScale,
/// which keeps them and TileValues below the largest binary16; the scales of
/// vectors make up for it.
constexpr bool kScaled = kTileHalves && kScaledLevels != 0;
constexpr float kHalfScale = 0x1p-6f;

/// From the codes of a vector in LDS to the next: the padding keeps the lanes
/// of a tile in different banks.
constexpr u32 kCodesPitch = 32 * kStage + 16;

/// Where copies run on, the next stage is made ready while one is multiplied.
constexpr u32 kBuffers = kCopiesRunOn ? 2 : 1;

/// What a group has in LDS of the rows.
struct StagedRows {
  u8 values[kTileHalves ? kStage * kBlockValues : kTileRows * kRowPitch];
  float scales[kScaled ? 1 : kStage][kScales][kTileRows]; ///< unless in values
};
/// What a wave has of its vectors.
struct StagedVectors {
  u8 codes[kBuffers][kTileLines][kCodesPitch];
  float scales[kBuffers][kStage][kTileLines];
};
struct TileMemory {
  StagedRows rows[kBuffers][kWaveGroups];
  StagedVectors vectors[kWaveGroups * kGroupWaves];
};

/// Sums of a segment of each group, of kPartialTiles tiles of vectors.
constexpr u32 kPartialLines = kTileLines * kPartialTiles;
struct TilePartials {
  float of[kWaveGroups][kPartialLines][kTileRows + 8];
};

/// Where LDS has room the sums of the first segments wait there, beyond what
/// the second ones need, and not in registers.
constexpr bool kFirstInMemory = kPartialTiles == kGroupWaves;
constexpr u32 kFirstAt = sizeof(TileMemory) > sizeof(TilePartials)
                             ? sizeof(TileMemory)
                             : sizeof(TilePartials);
static_assert(kFirstAt + (kFirstInMemory ? sizeof(TilePartials) : 0) ==
              kSharedBytes);

DS4_DEVICE u8 *tile_bytes() {
  DS4_BLOCK_MEMORY(bytes, kSharedBytes);
  return bytes;
}

/// The calling wave's place in the block.
struct WavePlace {
  u32 wave, group;
  u32 tile; ///< of vectors

  DS4_DEVICE WavePlace()
      : wave(same_in_wave(thread_x() / kWave)), group(wave / kGroupWaves),
        // Vectors that are not there should leave no scheduler without work: a
        // wave's tile depends on its group, too.
        tile((wave + group) % kGroupWaves) {}

  DS4_DEVICE void group_barrier() const {
    barrier_of(1 + group, kGroupThreads);
  }
};
DS4_DEVICE u32 group_thread() { return thread_x() % kGroupThreads; }

/// Copies codes and scales of the wave's vectors to LDS.
class VectorStager {
public:
  /// `vector_at(v)`: number of vector v < count in `x`. Vectors that are not
  /// there are copies of the last one.
  template <typename VectorAt>
  DS4_DEVICE VectorStager(const u8 *x, u32 count, VectorAt vector_at,
                          const WavePlace &place, StagedVectors &to)
      : x(x) {
    // The two segments of a group are neighbours.
    const u32 first = 2 * place.group * kBlocksOfSegment;
    auto vector = [&](u32 line) {
      const u32 v = kTileLines * place.tile + line;
      return vector_at(v < count ? v : count - 1) * (kVectorBytes / 4);
    };
    const u32 unit = lane() % kUnits;
    for (u32 i = 0; i < kUnitsOfLane; ++i) {
      const u32 line = (i * kWave + lane()) / kUnits;
      codes_from[i] = kept(vector(line) + 8 * first + 4 * unit);
      codes_to[i] = to.codes[0][0] + kept(line * kCodesPitch + 16 * unit);
    }
    const u32 line = lane() % kTileLines, block = lane() / kTileLines;
    has_scale = block < kStage;
    scale_from = kept(vector(line) + kIn / 4 + first + block);
    scale_to = to.scales[0][0] + kept(block % kStage * kTileLines + line);
  }

  /// Begins to copy a stage.
  DS4_DEVICE void request(u32 stage) {
#pragma unroll
    for (u32 i = 0; i < kUnitsOfLane; ++i)
      copy_16(codes_to[i] + stage % kBuffers * (kTileLines * kCodesPitch),
              at(codes_from[i] + 8 * kStage * stage));
    if (has_scale)
      copy_4(scale_to + stage % kBuffers * (kStage * kTileLines),
             reinterpret_cast<const float *>(at(scale_from + kStage * stage)));
  }

private:
  static constexpr u32 kUnits = 2 * kStage; ///< of 16 codes, a vector
  static constexpr u32 kUnitsOfLane = kUnits * kTileLines / kWave;
  static_assert(kVectorBytes % 16 == 0);

  DS4_DEVICE const u8 *at(u32 word) const {
    return x + static_cast<u64>(word) * 4;
  }

  const u8 *x;
  u32 codes_from[kUnitsOfLane], scale_from; ///< words of x
  u8 *codes_to[kUnitsOfLane];
  float *scale_to;
  bool has_scale;
};

/// Decodes blocks of the rows to LDS, with the other lanes of the group.
class RowStager {
public:
  DS4_DEVICE RowStager(const u8 *rows, u32 row_count, u32 group, StagedRows &to)
      : rows(rows), segment(2 * group) {
    const u32 own = group_thread() / kStage, block = group_thread() % kStage;
    has_row = own < kTileRows;
    const u32 line = own % kTileRows;
    row = kept((line < row_count ? line : row_count - 1) * kRowBytes);
    values_to = to.values + kept(line * kRowPitch + block * kBlockValues);
    scales_to = to.scales[0][0] +
                kept((kScaled ? 0 : block * kScales * kTileRows) + line);
    place = kept(block);
  }

  DS4_DEVICE void load(u32 stage) {
    if (has_row)
      load_blocks<1>(rows + row, segment + stage / kStages,
                     stage % kStages * kStage + place, kBlocksOfSegment, block);
  }

  template <typename... Books>
  DS4_DEVICE void store(u32 stage, Books... books) const {
    if (!has_row)
      return;
    constexpr u32 kBufferBytes = kWaveGroups * sizeof(StagedRows);
    u8 *to = values_to + stage % kBuffers * kBufferBytes;
    u32 levels[8];
    levels_of(block, levels, books...);
    restore_levels(levels);
#pragma unroll
    for (u32 part = 0; part < kScales; ++part) {
      const float scale = scale_of(block, part, books...);
      const TileValues values(kScaled ? scale * kHalfScale : 1.0f);
#pragma unroll
      for (u32 half = 2 * part / kScales; half < 2 * (part + 1) / kScales;
           ++half)
        values.store_half(levels + 4 * half, half, to);
      if constexpr (!kScaled)
        scales_to[stage % kBuffers * (kBufferBytes / 4) + part * kTileRows] =
            scale;
    }
  }

private:
  const u8 *rows;
  u32 row; ///< bytes of `rows` before it
  u8 *values_to;
  float *scales_to;
  u32 place;   ///< of the block in a stage
  u32 segment; ///< the group's first one
  bool has_row;
  u8 block[kBlockBytes];
};

constexpr u32 kRowTiles = kTileRows / kTurnRows;
typedef float TileSums[kRowTiles][kTurnProducts];

/// A block of the wave's vectors, as a lane has it.
struct VectorTile {
  u32 codes[2][4]; ///< of the halves
  float scales[kTurnProducts];

  DS4_DEVICE void load(const StagedVectors &from, u32 stage, u32 b) {
    load_codes(from.codes[stage % kBuffers][0] + 32 * b, kCodesPitch, codes);
#pragma unroll
    for (u32 e = 0; e < kTurnProducts; ++e)
      scales[e] = from.scales[stage % kBuffers][b][tile_a(e)] *
                  (kScaled ? 1.0f / kHalfScale : 1.0f);
  }
};

/// sums += kBlocks blocks of a stage from `first` on, an fma a scale; without
/// `adds` the wave only helps the others of its group. Products of a block, of
/// kTurnRows rows and of one scale are a turn; if tiles overlap, those of a
/// turn are begun before the last ones are added.
template <u32 kBlocks>
DS4_DEVICE void add_blocks(const StagedRows &rows, const StagedVectors &vectors,
                           u32 stage, u32 first, bool adds, TileSums &sums) {
  constexpr u32 kTurnsOfBlock = kScales * kRowTiles;
  constexpr u32 kTurns = kBlocks * kTurnsOfBlock;
  const RowValues values = row_values(rows.values + kBlockValues * first);
  VectorTile x[kBlocks];
  float products[2][kTurnProducts];
  auto begin = [&](u32 turn) {
    const u32 b = turn / kTurnsOfBlock, part = turn % kTurnsOfBlock / kRowTiles;
    const u32 at = kBlockValues * b + turn % kRowTiles * kTurnRows * kRowPitch;
    float(&to)[kTurnProducts] = products[turn % 2];
    if (turn % kTurnsOfBlock == 0 && adds)
      x[b].load(vectors, stage, first + b);
    open_products();
    begin_products<false>(x[b].codes[part],
                          values_behind(values, at + kBlockHalf * part), to);
    if constexpr (kScales == 1)
      begin_products<true>(x[b].codes[1],
                           values_behind(values, at + kBlockHalf), to);
    close_products();
  };
  if constexpr (kTilesOverlap)
    begin(0);
#pragma unroll
  for (u32 turn = 0; turn < kTurns; ++turn) {
    float(&made)[kTurnProducts] = products[turn % 2];
    if (!kTilesOverlap)
      begin(turn);
    else if (turn + 1 < kTurns)
      begin(turn + 1);
    if (turn + 1 < kTurns)
      products_done<1>(made);
    else
      products_done<0>(made);
    const u32 b = turn / kTurnsOfBlock, part = turn % kTurnsOfBlock / kRowTiles;
    const u32 r = turn % kRowTiles;
    if (!adds)
      continue;
#pragma unroll
    for (u32 e = 0; e < kTurnProducts; ++e) {
      float term = made[e];
      if constexpr (!kScaled)
        term *= rows.scales[first + b][part][kTurnRows * r + tile_b(e)];
      sums[r][e] = fma_f32(term, x[b].scales[e], sums[r][e]);
    }
    // Or the products of all tiles would be kept and added at the end.
    if constexpr (!kTilesOverlap)
#pragma unroll
      for (u32 e = 0; e < kTurnProducts; ++e)
        finish(sums[r][e]);
  }
}

/// sums += a stage. Tiles that do not overlap leave no registers for several
/// blocks.
DS4_DEVICE void add_stage(const StagedRows &rows, const StagedVectors &vectors,
                          u32 stage, bool adds, TileSums &sums) {
  constexpr u32 kTogether = kTilesOverlap ? kStage : 1;
#pragma unroll 1
  for (u32 b = 0; b < kStage; b += kTogether)
    add_blocks<kTogether>(rows, vectors, stage, b, adds, sums);
}

/// Stores sums as those of tile `v`.
DS4_DEVICE void store_partials(const TileSums &sums, u32 group, u32 v,
                               TilePartials &partials) {
#pragma unroll
  for (u32 r = 0; r < kRowTiles; ++r)
#pragma unroll
    for (u32 e = 0; e < kTurnProducts; e += kProductsBeside)
      store_aligned<4 * kProductsBeside>(
          reinterpret_cast<u8 *>(
              partials.of[group][kTileLines * v + tile_a(e)] + kTurnRows * r +
              tile_b(e)),
          reinterpret_cast<const u8 *>(sums[r] + e));
}

/// The sums of first segments, if they wait in memory.
DS4_DEVICE TilePartials &first_partials() {
  return *reinterpret_cast<TilePartials *>(tile_bytes() + kFirstAt);
}

/// Adds the segments' sums, of the second segments or, if the first ones are
/// not in memory, of pairs, by way of LDS, and stores the products.
template <typename Store, typename... Books>
DS4_DEVICE void add_segments(const TileSums &sums, const WavePlace &place,
                             u32 count, u32 row_count, Store store,
                             Books... books) {
  TilePartials &partials = *reinterpret_cast<TilePartials *>(tile_bytes());
#pragma unroll 1
  for (u32 first = 0; first < kGroupWaves; first += kPartialTiles) {
    if (kTileLines * first >= count)
      break;
    barrier();
    if (const u32 v = place.tile - first; v < kPartialTiles)
      store_partials(sums, place.group, v, partials);
    barrier();
    const u32 row = thread_x() % kTileRows;
#pragma unroll
    for (u32 i = 0; i < kPartialLines; i += kThreads / kTileRows) {
      const u32 line = i + thread_x() / kTileRows;
      float pairs[kWaveGroups];
#pragma unroll
      for (u32 g = 0; g < kWaveGroups; ++g) {
        pairs[g] = partials.of[g][line][row];
        if constexpr (kFirstInMemory)
          pairs[g] = first_partials().of[g][line][row] + pairs[g];
      }
      const float sum = (pairs[0] + pairs[1]) + (pairs[2] + pairs[3]);
      if (kTileLines * first + line < count && row < row_count)
        store(kTileLines * first + line, row, whole_product(sum, books...));
    }
  }
  barrier(); // before anybody writes there
}

/// store(v, i, rows[i] . x[vector_at(v)]) for v < count <= kColumns and
/// i < row_count, i < kTileRows. By the whole block; `books` are the expert's,
/// or nothing.
template <typename VectorAt, typename Store, typename... Books>
DS4_DEVICE void tile_sums(const u8 *matrix, u32 row_count, const u8 *x,
                          u32 count, VectorAt vector_at, Store store,
                          Books... books) {
  TileMemory &memory = *reinterpret_cast<TileMemory *>(tile_bytes());
  const WavePlace place;
  StagedVectors &vectors = memory.vectors[place.wave];
  const bool adds = kTileLines * place.tile < count;
  RowStager row_stager(matrix, row_count, place.group,
                       memory.rows[0][place.group]);
  VectorStager vector_stager(x, count, vector_at, place, vectors);
  TileSums sums = {}, first_sums;
  constexpr u32 kAll = 2 * kStages;
  row_stager.load(0);
  if constexpr (kBuffers == 2) {
    if (adds)
      vector_stager.request(0);
    row_stager.store(0, books...);
    row_stager.load(1);
  }
#pragma unroll 1
  for (u32 end = kStages; end <= kAll; end += kStages) {
#pragma unroll 1
    for (u32 stage = end - kStages; stage < end; ++stage) {
      // The next stage is made ready beside this one, if LDS has room.
      const u32 next = kBuffers == 2 ? stage + 1 : stage;
      if constexpr (kBuffers == 2) {
        copies_done();
        values_stored();
      }
      place.group_barrier();
      if (adds && next < kAll)
        vector_stager.request(next);
      if (next < kAll)
        row_stager.store(next, books...);
      if (next + 1 < kAll)
        row_stager.load(next + 1);
      if constexpr (kBuffers == 1) {
        copies_done();
        place.group_barrier();
      }
      add_stage(memory.rows[stage % kBuffers][place.group], vectors, stage,
                adds, sums);
    }
    if (end != kStages)
      continue;
    if constexpr (kFirstInMemory)
      store_partials(sums, place.group, place.tile, first_partials());
#pragma unroll
    for (u32 r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (u32 e = 0; e < kTurnProducts; ++e) {
        first_sums[r][e] = sums[r][e];
        sums[r][e] = 0.0f;
      }
  }
  if constexpr (!kFirstInMemory)
#pragma unroll
    for (u32 r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (u32 e = 0; e < kTurnProducts; ++e)
        sums[r][e] = first_sums[r][e] + sums[r][e];
  add_segments(sums, place, count, row_count, store, books...);
}

/// The same; `books` are looked at if the format has learned ones.
template <typename VectorAt, typename Store>
DS4_DEVICE void tile_products(const u8 *rows, u32 row_count, const u8 *books,
                              const u8 *x, u32 count, VectorAt vector_at,
                              Store store) {
  if constexpr (kBookLevels != 0) {
    // In registers: barriers would have them loaded again.
    u32 words[kBookLevels == 0 ? 1 : kBookBytes / 4];
#pragma unroll
    for (u32 i = 0; i < kBookBytes / 4; ++i)
      words[i] = load_word(books + 4 * i);
    const u8 *own = reinterpret_cast<const u8 *>(words);
    tile_sums(rows, row_count, x, count, vector_at, store, own);
  } else {
    tile_sums(rows, row_count, x, count, vector_at, store);
  }
}
