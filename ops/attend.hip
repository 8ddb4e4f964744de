// attend.hip - softmax attention of all heads over one latent row per position,
// for the host and for shapes that attend_tiles.hip and attend_prompt.hip,
// which are for GPUs, do not divide. A block does a group of heads of one
// query: it decodes a tile of 32 rows into LDS once for all of them. A wave
// does kWaveHeads heads: for scores a lane is a row of the tile, for values a
// lane has every 32nd column.
//
//   tile: s = (q . K) scale; m = max s; e = exp(s - m); z = sum e; o = sum e K
//   merge from (sink, 1, 0), tiles in order; result = o / z
//
// | constant | |
// |---|---|
// | kHeads, kDim | H, d |
// | kWaveHeads, kBlockHeads | heads a wave, a block |
// | kWindow | raw rows that a query sees, itself included |
// | kRingRows, kRingBytes, kRingStorage | the cache of raw rows |
// | kCompressed | tokens a compressed row; 0: there are none |
// | kRowBytes, kStorage | the cache of compressed rows |
// | kSelected | k of the selection; 0: every visible compressed row |
// | kLoadRows | rows that a wave loads at once |
// | kPanels | 1, 2, 4, 8: parts of a row that are in LDS one at a time |
// | kScale | |

#include "state_rows.h"
#include "sums.h"

constexpr u32 kTile = 32;
constexpr u32 kSegments = 8 / kPanels; // of the dot product, in a panel
constexpr u32 kPanelColumns = (kDim + kPanels - 1) / kPanels;
// Odd, so that lanes that read a column of all rows meet different banks.
constexpr u32 kPitch = kPanelColumns | 1;
constexpr u32 kLaneColumns = (kPanelColumns + kWave - 1) / kWave;

/// Rows of a tile: raw positions or entries of the compressed list.
struct Tile {
  bool raw;
  u32 first, count;
};

struct Rows {
  const float *kv; // rows of the step
  const u8 *ring;  // earlier raw rows
  const u8 *compressed;
  const i32 *selected; // of this query
  u32 start;
};

DS4_DEVICE constexpr u32 panel_begin(u32 panel) {
  return segment_begin(kDim, panel * kSegments);
}

/// Columns begin + lane, begin + lane + 32, ... of row r of the tile.
DS4_DEVICE void load_row(const Rows &rows, Tile tile, u32 r, u32 begin, u32 end,
                         float (&values)[kLaneColumns]) {
  const u32 n = tile.first + r, first = begin + lane();
  if (tile.raw && n >= rows.start) {
    const float *from = rows.kv + static_cast<u64>(n - rows.start) * kDim;
    DS4_REGISTERS
    for (u32 c = 0; c < kLaneColumns; ++c)
      if (first + kWave * c < end)
        values[c] = from[first + kWave * c];
  } else if (tile.raw) {
    const u8 *from = rows.ring + static_cast<u64>(n % kRingRows) * kRingBytes;
    DS4_REGISTERS
    for (u32 c = 0; c < kLaneColumns; ++c)
      if (first + kWave * c < end)
        values[c] = state_value(kRingStorage, kDim, from, first + kWave * c);
  } else if constexpr (kCompressed != 0) {
    const u32 entry = kSelected ? static_cast<u32>(rows.selected[n]) : n;
    const u8 *from = rows.compressed + static_cast<u64>(entry) * kRowBytes;
    DS4_REGISTERS
    for (u32 c = 0; c < kLaneColumns; ++c)
      if (first + kWave * c < end)
        values[c] = state_value(kStorage, kDim, from, first + kWave * c);
  }
}

/// Decodes a panel of the tile's rows into LDS, a wave kLoadRows rows at a
/// time: all their loads before the stores, so that they are on their way
/// together.
DS4_DEVICE void load_panel(const Rows &rows, Tile tile, u32 panel, float *k) {
  const u32 begin = panel_begin(panel), end = panel_begin(panel + 1);
  constexpr u32 kWaves = kThreads / kWave;
  for (u32 r = wave(); r < tile.count; r += kLoadRows * kWaves) {
    float values[kLoadRows][kLaneColumns];
    DS4_REGISTERS
    for (u32 b = 0; b < kLoadRows; ++b)
      if (r + b * kWaves < tile.count)
        load_row(rows, tile, r + b * kWaves, begin, end, values[b]);
    DS4_REGISTERS
    for (u32 b = 0; b < kLoadRows; ++b)
      DS4_REGISTERS
    for (u32 c = 0; c < kLaneColumns; ++c)
      if (r + b * kWaves < tile.count && begin + lane() + kWave * c < end)
        k[(r + b * kWaves) * kPitch + lane() + kWave * c] = values[b][c];
  }
}

/// One wave's heads: softmax state and the columns of this lane.
struct Heads {
  float m[kWaveHeads], z[kWaveHeads];
  float o[kWaveHeads][kPanels * kLaneColumns];
};

/// Attends to one tile. k: a panel in LDS; s, e: kTile scores and exponentials
/// a head of the wave, in LDS.
DS4_DEVICE void attend_tile(const float *q, const Rows &rows, Tile tile,
                            float *k, float *s, float *e, Heads &heads) {
  float p[kWaveHeads][8] = {};
#pragma unroll
  for (u32 panel = 0; panel < kPanels; ++panel) {
    barrier();
    load_panel(rows, tile, panel, k);
    barrier();
    if (lane() < tile.count)
      for (u32 h = 0; h < kWaveHeads; ++h)
        add_segments(q + h * kDim + panel_begin(panel), k + lane() * kPitch,
                     kDim, panel * kSegments, kSegments, p[h]);
  }
  for (u32 h = 0; h < kWaveHeads; ++h)
    s[h * kTile + lane()] = tree8(p[h]) * kScale;
  barrier();

  float a[kWaveHeads], b[kWaveHeads];
  for (u32 h = 0; h < kWaveHeads; ++h) {
    float m = s[h * kTile];
    DS4_PREFETCH(8)
    for (u32 r = 1; r < tile.count; ++r)
      m = max_f32(m, s[h * kTile + r]);
    e[h * kTile + lane()] = exp_f32(s[h * kTile + lane()] - m);
    const float merged = max_f32(heads.m[h], m);
    a[h] = exp_f32(heads.m[h] - merged);
    b[h] = exp_f32(m - merged);
    heads.m[h] = merged;
  }
  barrier();
  for (u32 h = 0; h < kWaveHeads; ++h) {
    float z = 0.0f;
    DS4_PREFETCH(8)
    for (u32 r = 0; r < tile.count; ++r)
      z += e[h * kTile + r];
    heads.z[h] = fma_f32(z, b[h], heads.z[h] * a[h]);
  }
  // The last panel is still in LDS.
#pragma unroll
  for (u32 left = kPanels; left > 0; --left) {
    const u32 panel = left - 1,
              columns = panel_begin(panel + 1) - panel_begin(panel);
    if (left < kPanels) {
      barrier();
      load_panel(rows, tile, panel, k);
      barrier();
    }
    float o[kLaneColumns][kWaveHeads] = {};
    DS4_PREFETCH(4)
    for (u32 r = 0; r < tile.count; ++r)
      DS4_REGISTERS
    for (u32 j = 0; j < kLaneColumns; ++j)
      if (const u32 column = kWave * j + lane(); column < columns)
        for (u32 h = 0; h < kWaveHeads; ++h)
          o[j][h] = fma_f32(e[h * kTile + r], k[r * kPitch + column], o[j][h]);
#pragma unroll
    for (u32 j = 0; j < kLaneColumns; ++j)
      for (u32 h = 0; h < kWaveHeads; ++h) {
        float &sum = heads.o[h][panel * kLaneColumns + j];
        sum = fma_f32(o[j][h], b[h], sum * a[h]);
      }
  }
}

DS4_DEVICE void run(u32 block, u32 row, const float *q, const float *kv,
                    const u8 *ring, const float *sinks, const u8 *compressed,
                    const i32 *selected, float *result, const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  DS4_SHARED float k[kTile * kPitch];
  DS4_SHARED float scores[kBlockHeads * kTile], terms[kBlockHeads * kTile];
  const u32 local = wave() * kWaveHeads;
  const u32 head = block * kBlockHeads + local;
  const u64 at = (static_cast<u64>(row) * kHeads + head) * kDim;
  const u32 position = row_position(kRatio, step, row);
  const Rows rows = {kv, ring, compressed, selected + row * kSelected,
                     static_cast<u32>(step->start)};

  Heads heads = {};
  for (u32 h = 0; h < kWaveHeads; ++h) {
    heads.m[h] = sinks[head + h];
    heads.z[h] = 1.0f;
  }
  for (u32 list = 0; list < (kCompressed ? 2 : 1); ++list) {
    u32 first = position + 1 > kWindow ? position + 1 - kWindow : 0;
    u32 end = position + 1;
    if constexpr (kCompressed != 0)
      if (list == 1) {
        first = 0;
        end = (position + 1) / kCompressed;
        end = kSelected && end > kSelected ? kSelected : end;
      }
    while (first < end) {
      const u32 next = first / kTile * kTile + kTile;
      const u32 count = (next < end ? next : end) - first;
      attend_tile(q + at, rows, {list == 0, first, count}, k,
                  scores + local * kTile, terms + local * kTile, heads);
      first += count;
    }
  }
#pragma unroll
  for (u32 panel = 0; panel < kPanels; ++panel)
#pragma unroll
    for (u32 j = 0; j < kLaneColumns; ++j) {
      const u32 i = panel_begin(panel) + kWave * j + lane();
      if (i < panel_begin(panel + 1))
        for (u32 h = 0; h < kWaveHeads; ++h)
          result[at + h * kDim + i] =
              div_f32(heads.o[h][panel * kLaneColumns + j], heads.z[h]);
    }
}
