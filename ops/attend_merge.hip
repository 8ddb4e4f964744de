// attend_merge.hip - the tiles of ds4.attend, which attend_tiles.hip has left
// in scratch memory, become its result. A block does a head.
//
//   merge from (sink, 1, 0), tiles in order; result = o / z
//
// | constant | |
// |---|---|
// | kHeads, kDim | H, d, a multiple of 64 |
// | kWindow, kCompressed, kSelected, kListTiles | see attend_list.h |

#include "attend_list.h"
#include "state_rows.h"

/// Columns of a thread, and tiles whose sums are on their way together.
constexpr u32 kColumns = kDim % (2 * kThreads) == 0 ? kDim / kThreads : 1;
constexpr u32 kTogether = kTiles < 24 ? kTiles : 24;

DS4_DEVICE void run(u32 block, u32 row, const float *sinks, float *result,
                    float *scratch, const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  // The tiles that there are: `raw` from 0 on, `listed` from kRawTiles on.
  const u32 position = row_position(kRatio, step, row);
  u32 raw = 0, listed = 0;
  while (raw < kRawTiles && tile_of(raw, position).count != 0)
    ++raw;
  while (listed < kListTiles &&
         tile_of(kRawTiles + listed, position).count != 0)
    ++listed;
  const u32 tiles = raw + listed;
  const auto number = [raw](u32 i) {
    return i < raw ? i : i - raw + kRawTiles;
  };
  const u32 head = block;
  const auto load_sums = [&](u32 first, u32 column,
                             float(&sums)[kTogether][kColumns]) {
    DS4_REGISTERS
    for (u32 i = 0; i < kTogether; ++i)
      if (first + i < tiles)
        load_floats(sums_of(scratch, row, number(first + i), head) + column,
                    sums[i]);
  };

  // The first tiles' sums come while their weights are made.
  const u32 own = kColumns * thread_x();
  float sums[kTogether][kColumns];
  if (own < kDim)
    load_sums(0, own, sums);
  DS4_SHARED float m[kTiles], z[kTiles], before[kTiles], here[kTiles];
  for (u32 i = thread_x(); i < tiles; i += kThreads) {
    float both[2];
    load_floats(statistics_of(scratch, row, number(i), head), both);
    m[i] = both[0];
    z[i] = both[1];
  }
  const float sink = sinks[head];
  barrier();
  for (u32 i = thread_x(); i < tiles; i += kThreads) {
    float merged = sink;
    DS4_PREFETCH(8)
    for (u32 j = 0; j < i; ++j)
      merged = max_f32(merged, m[j]);
    const float next = max_f32(merged, m[i]);
    before[i] = exp_f32(merged - next);
    here[i] = exp_f32(m[i] - next);
  }
  barrier();
  result += (static_cast<u64>(row) * kHeads + head) * kDim;
  for (u32 column = own; column < kDim; column += kColumns * kThreads) {
    float o[kColumns] = {}, total = 1.0f;
    for (u32 first = 0; first < tiles; first += kTogether) {
      if (first != 0 || column != own)
        load_sums(first, column, sums);
      DS4_REGISTERS
      for (u32 i = 0; i < kTogether; ++i)
        if (const u32 t = first + i; t < tiles) {
          total = fma_f32(z[t], here[t], total * before[t]);
          DS4_REGISTERS
          for (u32 c = 0; c < kColumns; ++c)
            o[c] = fma_f32(sums[i][c], here[t], o[c] * before[t]);
        }
    }
    DS4_REGISTERS
    for (u32 c = 0; c < kColumns; ++c)
      o[c] = div_f32(o[c], total);
    store_floats(result + column, o);
  }
}
