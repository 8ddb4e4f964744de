// attend_tiles.hip - the tiles of ds4.attend, each by blocks of its own: a
// block does kBlockHeads heads of one tile and leaves m, z and o in scratch
// memory, where attend_merge.hip finds them. A wave has a segment of the dot
// products, a lane a row, whose values it keeps in registers for all heads;
// rows then go to LDS, a panel of columns at a time, for the weighted sums.
//
//   s = (q . K) scale; m = max s; e = exp(s - m); z = sum e; o = sum e K
//
// | constant | |
// |---|---|
// | kHeads, kDim | H, d, a multiple of 64 |
// | kBlockHeads | heads a block: 4 or 8 |
// | kWindow, kCompressed, kSelected, kListTiles | see attend_list.h |
// | kRingRows, kRingBytes, kRingStorage | the cache of raw rows |
// | kRowBytes, kStorage | the cache of compressed rows |
// | kPanels | parts of a row that are in LDS one at a time |
// | kScale | |

#include "attend_list.h"
#include "state_rows.h"
#include "sums.h"

constexpr u32 kSegment = kDim / 8;
static_assert(kDim % 64 == 0 && kThreads == 8 * kWave);
static_assert(kBlockHeads % 4 == 0 && kBlockHeads <= 8);
constexpr u32 kPanelSegments = 8 / kPanels;
constexpr u32 kPanelColumns = kDim / kPanels;
/// Lanes that write 16 bytes of different rows meet different banks.
constexpr u32 kPitch = kPanelColumns + 4;

/// The segment of row r of the tile that the calling wave does.
DS4_DEVICE void load_row(Tile tile, u32 r, const float *kv, const u8 *ring,
                         const u8 *compressed, const i32 *selected, u32 start,
                         float (&values)[kSegment]) {
  const u32 n = tile.first + r, first = wave() * kSegment;
  if (tile.raw && n >= start)
    load_floats(kv + static_cast<u64>(n - start) * kDim + first, values);
  else if (tile.raw)
    state_values(kRingStorage, kDim,
                 ring + static_cast<u64>(n % kRingRows) * kRingBytes, first,
                 values);
  else if constexpr (kCompressed != 0) {
    const u32 entry = kSelected ? static_cast<u32>(selected[n]) : n;
    state_values(kStorage, kDim,
                 compressed + static_cast<u64>(entry) * kRowBytes, first,
                 values);
  }
}

/// Scores of a head, a lane a row: m and z go to `statistics`, the exponentials
/// to terms[lane * kBlockHeads].
DS4_DEVICE void weigh_rows(float score, u32 count, float *terms,
                           float *statistics) {
  // Lanes without a row repeat the first, which changes no maximum.
  const float first = shfl(score, 0);
  float m = lane() < count ? score : first;
  for (u32 mask = 1; mask < kWave; mask *= 2)
    m = max_f32(m, shfl_xor(m, mask));
  const float e = exp_f32(score - m);
  float z = 0.0f;
  DS4_PREFETCH(8)
  for (u32 r = 0; r < count; ++r)
    z += shfl(e, r);
  terms[lane() * kBlockHeads] = e;
  if (lane() == 0) {
    statistics[0] = m;
    statistics[1] = z;
  }
}

/// o = sum e K of the panel's columns for all heads of the block; sums: column
/// 0 of the panel of its first head. A thread has two columns of four heads.
DS4_DEVICE void weighted_sums(const float *k, const float *terms, u32 count,
                              float *sums) {
  constexpr u32 kPairs = kPanelColumns / 2;
  for (u32 i = thread_x(); i < kPairs * (kBlockHeads / 4); i += kThreads) {
    const u32 column = i % kPairs * 2, head = i / kPairs * 4;
    float o[4][2] = {};
    DS4_PREFETCH(8)
    for (u32 r = 0; r < count; ++r) {
      float row[2], e[4];
      load_floats(k + r * kPitch + column, row);
      load_floats(terms + r * kBlockHeads + head, e);
      DS4_REGISTERS
      for (u32 h = 0; h < 4; ++h)
        DS4_REGISTERS
      for (u32 c = 0; c < 2; ++c)
        o[h][c] = fma_f32(e[h], row[c], o[h][c]);
    }
    DS4_REGISTERS
    for (u32 h = 0; h < 4; ++h)
      store_floats(sums + (head + h) * kDim + column, o[h]);
  }
}

/// Block `block` does tile block % kTiles of head group block / kTiles.
DS4_DEVICE void run(u32 block, u32 row, const float *q, const float *kv,
                    const u8 *ring, const u8 *compressed, const i32 *selected,
                    float *scratch, const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  const Tile tile = tile_of(block % kTiles, row_position(kRatio, step, row));
  if (tile.count == 0)
    return;
  constexpr u32 kQueries = kBlockHeads * kDim, kRows = kTile * kPitch;
  alignas(16) DS4_SHARED float area[kQueries > kRows ? kQueries : kRows];
  DS4_SHARED float parts[kBlockHeads * 8 * kTile];
  alignas(16) DS4_SHARED float terms[kTile * kBlockHeads];
  const u32 head = block / kTiles * kBlockHeads;

  // The rows are on their way while the queries come.
  float values[kSegment] = {};
  if (lane() < tile.count)
    load_row(tile, lane(), kv, ring, compressed, selected + row * kSelected,
             static_cast<u32>(step->start), values);
  q += (static_cast<u64>(row) * kHeads + head) * kDim;
  for (u32 i = 4 * thread_x(); i < kQueries; i += 4 * kThreads) {
    float four[4];
    load_floats(q + i, four);
    store_floats(area + i, four);
  }
  barrier();

  float sums[kBlockHeads] = {};
  DS4_REGISTERS
  for (u32 i = 0; i < kSegment; i += 4)
    DS4_REGISTERS
  for (u32 h = 0; h < kBlockHeads; ++h) {
    float four[4];
    load_floats(area + h * kDim + wave() * kSegment + i, four);
    DS4_REGISTERS
    for (u32 j = 0; j < 4; ++j)
      sums[h] = fma_f32(four[j], values[i + j], sums[h]);
  }
  DS4_REGISTERS
  for (u32 h = 0; h < kBlockHeads; ++h)
    parts[(h * 8 + wave()) * kTile + lane()] = sums[h];
  barrier();

  if (wave() < kBlockHeads) {
    float p[8];
    for (u32 j = 0; j < 8; ++j)
      p[j] = parts[(wave() * 8 + j) * kTile + lane()];
    weigh_rows(tree8(p) * kScale, tile.count, terms + wave(),
               statistics_of(scratch, row, block % kTiles, head + wave()));
  }
  for (u32 panel = 0; panel < kPanels; ++panel) {
    if (wave() / kPanelSegments == panel)
      store_floats(area + lane() * kPitch + wave() % kPanelSegments * kSegment,
                   values);
    barrier();
    weighted_sums(area, terms, tile.count,
                  sums_of(scratch, row, block % kTiles, head) +
                      panel * kPanelColumns);
    if (panel + 1 < kPanels)
      barrier();
  }
}
