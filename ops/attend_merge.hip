// attend_merge.hip - the tiles of ds4.attend, which attend_tiles.hip has left
// in scratch memory, become its result. A block does kBlockHeads heads.
//
//   merge from (sink, 1, 0), tiles in order; result = o / z
//
// | constant | |
// |---|---|
// | kHeads, kDim | H, d, a multiple of 4 |
// | kBlockHeads | heads a block |
// | kWindow, kCompressed, kSelected, kListTiles | see attend_list.h |

#include "attend_list.h"
#include "state_rows.h"

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

  // Of tile i and head h at i * kBlockHeads + h.
  DS4_SHARED float m[kTiles * kBlockHeads], z[kTiles * kBlockHeads];
  DS4_SHARED float before[kTiles * kBlockHeads], here[kTiles * kBlockHeads];
  DS4_SHARED float total[kBlockHeads];
  const u32 head = block * kBlockHeads;
  for (u32 j = thread_x(); j < tiles * kBlockHeads; j += kThreads) {
    float both[2];
    load_floats(statistics_of(scratch, row, number(j / kBlockHeads),
                              head + j % kBlockHeads),
                both);
    m[j] = both[0];
    z[j] = both[1];
  }
  barrier();
  for (u32 j = thread_x(); j < tiles * kBlockHeads; j += kThreads) {
    float merged = sinks[head + j % kBlockHeads];
    for (u32 i = j % kBlockHeads; i < j; i += kBlockHeads)
      merged = max_f32(merged, m[i]);
    const float next = max_f32(merged, m[j]);
    before[j] = exp_f32(merged - next);
    here[j] = exp_f32(m[j] - next);
  }
  barrier();
  if (thread_x() < kBlockHeads) {
    float sum = 1.0f;
    for (u32 j = thread_x(); j < tiles * kBlockHeads; j += kBlockHeads)
      sum = fma_f32(z[j], here[j], sum * before[j]);
    total[thread_x()] = sum;
  }
  barrier();

  result += (static_cast<u64>(row) * kHeads + head) * kDim;
  for (u32 i = 4 * thread_x(); i < kBlockHeads * kDim; i += 4 * kThreads) {
    const u32 h = i / kDim;
    float o[4] = {};
    DS4_PREFETCH(8)
    for (u32 t = 0; t < tiles; ++t) {
      float four[4];
      load_floats(sums_of(scratch, row, number(t), head) + i, four);
      DS4_REGISTERS
      for (u32 c = 0; c < 4; ++c)
        o[c] = fma_f32(four[c], here[t * kBlockHeads + h],
                       o[c] * before[t * kBlockHeads + h]);
    }
    DS4_REGISTERS
    for (u32 c = 0; c < 4; ++c)
      o[c] = div_f32(o[c], total[h]);
    store_floats(result + i, o);
  }
}
