// attend_prompt.hip - ds4.attend of long steps on GPUs. A block does
// kBlockHeads heads of one query, whose values stay in LDS; tiles of rows come
// kTileGroup at a time, decoded, a part of each segment's columns (a panel)
// after the other. Eight waves load a tile and do its scores; then all waves do
// the weighted sums. Threads have rectangles of both products in registers:
// heads by rows of a segment for the scores, heads by columns for the sums.
//
//   tile: s = (q . K) scale; m = max s; e = exp(s - m); z = sum e; o = sum e K
//   merge from (sink, 1, 0), tiles in order; result = o / z
//
// | constant | |
// |---|---|
// | kHeads, kDim | H, d, a multiple of 32 |
// | kBlockHeads | heads a block: 8, 16 or 32 |
// | kTileGroup | tiles at a time: 1 or 2 |
// | kWindow, kCompressed, kSelected, kListTiles | see attend_list.h |
// | kRingRows, kRingBytes, kRingStorage | the cache of raw rows |
// | kRowBytes, kStorage | the cache of compressed rows |
// | kPanels | parts of a segment that are in LDS one at a time |
// | kSharedBytes | what the launch reserves |
// | kScale | |

#include "attend_list.h"
#include "state_rows.h"

constexpr u32 kSegment = kDim / 8, kPart = kSegment / kPanels;
constexpr u32 kRectangleHeads = kBlockHeads;
static_assert(kDim % 32 == 0 && kPart * kPanels == kSegment);
#include "rectangles.h"

constexpr u32 kTileWaves = 8, kTileThreads = kTileWaves * kWave;
static_assert(kThreads == kTileGroup * kTileThreads);

constexpr u32 kScorePitch = kTile + 4, kTermPitch = kBlockHeads + 4;

/// What a tile leaves for the weighted sums.
struct TileMemory {
  float rows[kTile * kRowPitch];
  float scores[kBlockHeads * kScorePitch];      ///< [head, row]
  float terms[kTile * kTermPitch];              ///< exp(s - m): [row, head]
  float before[kBlockHeads], here[kBlockHeads]; ///< a, b of the merge
};

struct Memory {
  TileMemory tiles[kTileGroup];
  float queries[kBlockHeads * kQueryPitch];
  float maxima[kBlockHeads]; ///< of the tiles so far
  float totals[kBlockHeads]; ///< z in the end
};
static_assert(sizeof(Memory) == kSharedBytes);

DS4_DEVICE void load_queries(const float *q, Memory &memory) {
  constexpr u32 kUnits = kDim / 4; // of a head
  DS4_PREFETCH(8)
  for (u32 i = thread_x(); i < kBlockHeads * kUnits; i += kThreads) {
    const u32 head = i / kUnits, column = i % kUnits * 4;
    float four[4];
    load_floats(q + head * kDim + column, four);
    store_floats(memory.queries + head * kQueryPitch +
                     column / kSegment * kQuerySegment + column % kSegment,
                 four);
  }
}

//===----------------------------------------------------------------------===//
// Rows of a tile
//===----------------------------------------------------------------------===//

/// The memory that rows come from; `kv` is of the step's own.
struct Caches {
  const float *kv;
  const u8 *ring, *compressed;
  u32 start; ///< position of row 0 of kv
};

/// Tile of the group that the calling wave loads, and its place there.
DS4_DEVICE u32 wave_tile() { return wave() / kTileWaves; }
DS4_DEVICE u32 tile_wave() { return wave() % kTileWaves; }

/// A tile whose rows before `own` are in a cache and whose others are among the
/// step's own.
struct Source {
  Tile tile;
  u32 own;
  u32 stored; ///< the lane's row, if it is in a cache
};

DS4_DEVICE Source source_of(Tile tile, const i32 *selected, u32 start) {
  const u32 n = tile.first + lane();
  if (tile.raw) {
    const u32 cached = start > tile.first ? start - tile.first : 0;
    return {tile, cached < tile.count ? cached : tile.count, n % kRingRows};
  }
  if (kSelected == 0 || lane() >= tile.count)
    return {tile, tile.count, n};
  return {tile, tile.count, static_cast<u32>(selected[n])};
}

/// Decodes a panel of the tile's rows: from a cache a lane a row and a wave a
/// segment, of the step's own a row by neighbouring threads.
DS4_DEVICE void load_panel(const Caches &caches, const Source &source,
                           u32 panel, TileMemory &memory) {
  if (lane() < source.own) {
    float *to = memory.rows + lane() * kRowPitch + tile_wave() * kRowSegment;
    const u64 stored = source.stored;
    state_fours<kPart>(
        source.tile.raw ? kRingStorage : kStorage, kDim,
        source.tile.raw ? caches.ring + stored * kRingBytes
                        : caches.compressed + stored * kRowBytes,
        tile_wave() * kSegment + panel * kPart,
        [&](u32 i, const float(&four)[4]) { store_floats(to + i, four); });
  }
  if (source.own == source.tile.count)
    return;
  constexpr u32 kUnits = kPart / 4; // of a segment
  const u32 thread = thread_x() % kTileThreads;
  const u32 segment = thread / kUnits % 8, column = thread % kUnits * 4;
  const float *from = caches.kv + segment * kSegment + panel * kPart + column;
  const u32 before = source.tile.first - caches.start; // may be negative
  float *to = memory.rows + segment * kRowSegment + column;
  constexpr u32 kRows = kTileThreads / (8 * kUnits); // at a time
  constexpr u32 kBatch = 4; // more would find no registers
#pragma unroll 1
  for (u32 first = thread / (8 * kUnits); first < source.tile.count;
       first += kBatch * kRows) {
    float values[kBatch][4];
    DS4_REGISTERS
    for (u32 b = 0; b < kBatch; ++b)
      if (const u32 r = first + b * kRows;
          r >= source.own && r < source.tile.count)
        load_floats(from + static_cast<u64>(before + r) * kDim, values[b]);
    DS4_REGISTERS
    for (u32 b = 0; b < kBatch; ++b)
      if (const u32 r = first + b * kRows;
          r >= source.own && r < source.tile.count)
        store_floats(to + r * kRowPitch, values[b]);
  }
}

//===----------------------------------------------------------------------===//
// Softmax of a tile and the weighted sums
//===----------------------------------------------------------------------===//

// A wave has kWaveHeads heads of each tile of the group.
constexpr u32 kWaveHeads = kBlockHeads / (kThreads / kWave);
constexpr u32 kWaveScores = kWaveHeads * kTileGroup;

/// Of two values, the maximum of the one that a lane keeps (pair_share).
DS4_DEVICE float pair_max(float even, float odd, u32 mask) {
  const bool is_odd = lane() & mask;
  return max_f32(is_odd ? odd : even, shfl_xor(is_odd ? even : odd, mask));
}

/// Maxima over the wave of each value; lane l gets number l % kWaveScores.
DS4_DEVICE float wave_maxima(const float (&values)[kWaveScores]) {
  static_assert(kWaveScores == 1 || kWaveScores == 2 || kWaveScores == 4);
  float m = values[0];
  if constexpr (kWaveScores == 4)
    m = pair_max(pair_max(values[0], values[1], 1),
                 pair_max(values[2], values[3], 1), 2);
  else if constexpr (kWaveScores == 2)
    m = pair_max(values[0], values[1], 1);
  DS4_REGISTERS
  for (u32 mask = kWaveScores; mask < kWave; mask *= 2)
    m = max_f32(m, shfl_xor(m, mask));
  keep_here(m);
  return m;
}

/// Exponentials of all scores and the factors of the merges; a lane has a row
/// of each tile. A tile of no rows changes no maximum.
DS4_DEVICE void weigh_rows(const u32 (&counts)[kTileGroup], Memory &memory) {
  const u32 head = wave() * kWaveHeads;
  const float infinity = float_of(0x7f800000u);
  float s[kWaveScores];
  DS4_REGISTERS
  for (u32 i = 0; i < kWaveScores; ++i) {
    const u32 tile = i / kWaveHeads;
    const float score =
        memory.tiles[tile]
            .scores[(head + i % kWaveHeads) * kScorePitch + lane()];
    s[i] = lane() < counts[tile] ? score : -infinity;
  }
  const float m = wave_maxima(s);
  DS4_REGISTERS
  for (u32 tile = 0; tile < kTileGroup; ++tile) {
    float e[kWaveHeads];
    DS4_REGISTERS
    for (u32 i = 0; i < kWaveHeads; ++i)
      e[i] =
          exp_select(s[tile * kWaveHeads + i] - shfl(m, tile * kWaveHeads + i));
    store_floats(memory.tiles[tile].terms + lane() * kTermPitch + head, e);
  }
  const u32 own = head + lane() % kWaveHeads;
  float merged = memory.maxima[own];
  DS4_REGISTERS
  for (u32 tile = 0; tile < kTileGroup; ++tile) {
    const float here = shfl(m, tile * kWaveHeads + lane() % kWaveHeads);
    const float next = max_f32(merged, here);
    const float a = exp_select(merged - next), b = exp_select(here - next);
    if (lane() < kWaveHeads) {
      memory.tiles[tile].before[own] = a;
      memory.tiles[tile].here[own] = b;
    }
    merged = next;
  }
  if (lane() < kWaveHeads)
    memory.maxima[own] = merged;
}

/// Merges a tile's z of head wave() * kWaveHeads + lane(), if the lane has one.
DS4_DEVICE void add_terms(u32 count, const TileMemory &memory, float &total) {
  if (lane() >= kWaveHeads)
    return;
  const u32 head = wave() * kWaveHeads + lane();
  const float *term = memory.terms + head;
  float z = 0.0f;
  DS4_PREFETCH(8)
  for (u32 r = 0; r < count; ++r) {
    z += *term;
    term += kTermPitch;
  }
  total = fma_f32(z, memory.here[head], total * memory.before[head]);
}

// A thread has kValueHeads heads by four columns of each panel. Lane bit 0 is a
// bit of the heads, the others of the columns.
constexpr u32 kColumnGroups = 8 * kPart / 4;
constexpr u32 kValueHeads = kBlockHeads * kColumnGroups / kThreads;
constexpr u32 kHeadGroups = kBlockHeads / kValueHeads;
static_assert(kHeadGroups * kColumnGroups == kThreads && kHeadGroups % 2 == 0);
typedef float ValueSums[kPanels][kValueHeads][4];

DS4_DEVICE u32 value_head() {
  const u32 group = lane() % 2 + wave() % (kHeadGroups / 2) * 2;
  return group * kValueHeads;
}
DS4_DEVICE u32 column_group() {
  return lane() / 2 + wave() / (kHeadGroups / 2) * (kWave / 2);
}

DS4_DEVICE void add_row(const float (&k)[4], const float (&e)[kValueHeads],
                        float (&sums)[kValueHeads][4]) {
  DS4_REGISTERS
  for (u32 h = 0; h < kValueHeads; ++h)
    DS4_REGISTERS
  for (u32 c = 0; c < 4; ++c)
    sums[h][c] = fma_f32(e[h], k[c], sums[h][c]);
}

/// Merges the tile's weighted sums of a panel's columns.
DS4_DEVICE void merge_panel(const TileMemory &memory, u32 count,
                            float (&merged)[kValueHeads][4]) {
  constexpr u32 kUnits = kPart / 4; // of a segment
  const float *row = memory.rows + column_group() / kUnits * kRowSegment +
                     column_group() % kUnits * 4;
  const float *terms = memory.terms + value_head();
  float sums[kValueHeads][4] = {};
  // What the next row needs comes while this one is multiplied.
  float k[2][4], e[2][kValueHeads];
  load_floats(row, k[0]);
  load_floats(terms, e[0]);
#pragma unroll 1
  for (u32 r = 0; r < count; r += 2) {
    load_floats(row + kRowPitch, k[1]);
    load_floats(terms + kTermPitch, e[1]);
    add_row(k[0], e[0], sums);
    if (r + 1 == count)
      break;
    row += 2 * kRowPitch;
    terms += 2 * kTermPitch;
    load_floats(row, k[0]);
    load_floats(terms, e[0]);
    add_row(k[1], e[1], sums);
  }
  DS4_REGISTERS
  for (u32 h = 0; h < kValueHeads; ++h) {
    const float a = memory.before[value_head() + h],
                b = memory.here[value_head() + h];
    DS4_REGISTERS
    for (u32 c = 0; c < 4; ++c)
      merged[h][c] = fma_f32(sums[h][c], b, merged[h][c] * a);
  }
}

/// Tiles of the group are merged one after another; a tile of no rows comes
/// last and is none.
DS4_DEVICE void attend_tiles(const Caches &caches, const Source &source,
                             const u32 (&counts)[kTileGroup], Memory &memory,
                             float &total, ValueSums &merged) {
  TileMemory &own = memory.tiles[wave_tile()];
  const bool scores = wave_row() < source.tile.count;
  {
    LaneSums sums = {};
#pragma unroll
    for (u32 panel = 0; panel < kPanels; ++panel) {
      barrier();
      load_panel(caches, source, panel, own);
      barrier();
      if (scores)
        add_columns(memory.queries, own.rows, panel * kPart, sums);
    }
    if (scores)
      each_product(sums, [&](u32 head, u32 row, float sum) {
        own.scores[head * kScorePitch + row] = sum * kScale;
      });
  }
  barrier();
  weigh_rows(counts, memory);
  barrier();
#pragma unroll
  for (u32 tile = 0; tile < kTileGroup; ++tile)
    if (counts[tile] != 0)
      add_terms(counts[tile], memory.tiles[tile], total);
  // The last panel is still in LDS.
#pragma unroll
  for (u32 i = 0; i < kPanels; ++i) {
    const u32 panel = kPanels - 1 - i;
    if (i != 0) {
      barrier();
      load_panel(caches, source, panel, own);
      barrier();
    }
#pragma unroll
    for (u32 tile = 0; tile < kTileGroup; ++tile)
      if (counts[tile] != 0)
        merge_panel(memory.tiles[tile], counts[tile], merged[panel]);
  }
}

/// The tiles that there are of the query's list, in order.
struct TileList {
  u32 position, raw; ///< raw: tiles of raw rows

  DS4_DEVICE TileList(u32 position) : position(position) {
    const u32 first = position + 1 > kWindow ? position + 1 - kWindow : 0;
    raw = position / kTile - first / kTile + 1;
  }
  /// One behind the last has no rows.
  DS4_DEVICE Tile at(u32 i) const {
    return tile_of(i < raw ? i : i - raw + kRawTiles, position);
  }
};

DS4_DEVICE void run(u32 block, u32 row, const float *q, const float *kv,
                    const u8 *ring, const float *sinks, const u8 *compressed,
                    const i32 *selected, float *result, const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  DS4_BLOCK_MEMORY(bytes, kSharedBytes);
  Memory &memory = *reinterpret_cast<Memory *>(bytes);
  const TileList list(row_position(kRatio, step, row));
  const Caches caches = {kv, ring, compressed, static_cast<u32>(step->start)};
  const u32 head = block * kBlockHeads;
  const u64 at = (static_cast<u64>(row) * kHeads + head) * kDim;
  load_queries(q + at, memory);
  if (thread_x() < kBlockHeads)
    memory.maxima[thread_x()] = sinks[head + thread_x()];
  selected += row * kSelected;

  float total = 1.0f; // see add_terms
  ValueSums merged;
#pragma unroll
  for (u32 panel = 0; panel < kPanels; ++panel)
#pragma unroll
    for (u32 h = 0; h < kValueHeads; ++h)
#pragma unroll
      for (u32 c = 0; c < 4; ++c)
        merged[panel][h][c] = 0.0f;
#pragma unroll 1
  for (u32 first = 0;; first += kTileGroup) {
    u32 counts[kTileGroup];
    DS4_REGISTERS
    for (u32 i = 0; i < kTileGroup; ++i)
      counts[i] = list.at(first + i).count;
    if (counts[0] == 0)
      break;
    attend_tiles(
        caches, source_of(list.at(first + wave_tile()), selected, caches.start),
        counts, memory, total, merged);
  }
  if (lane() < kWaveHeads)
    memory.totals[wave() * kWaveHeads + lane()] = total;
  barrier();

  constexpr u32 kUnits = kPart / 4;
  const u32 column =
      column_group() / kUnits * kSegment + column_group() % kUnits * 4;
#pragma unroll
  for (u32 panel = 0; panel < kPanels; ++panel)
#pragma unroll
    for (u32 h = 0; h < kValueHeads; ++h) {
      DS4_REGISTERS
      for (u32 c = 0; c < 4; ++c)
        merged[panel][h][c] =
            div_f32(merged[panel][h][c], memory.totals[value_head() + h]);
      store_floats(result + at + (value_head() + h) * kDim + panel * kPart +
                       column,
                   merged[panel][h]);
    }
}
