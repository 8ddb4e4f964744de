// index_prompt.hip - ds4.index_score of long steps on GPUs: a block takes turns
// over tiles of 32 rows of the cache for one query, whose heads stay in LDS;
// threads do rectangles of heads by rows (rectangles.h); one wave adds the
// heads up.
//
//   result[w] = sum_h u_h scale max(q_h . key_w, 0), ascending h; a NaN product
//   stays one
//
// | constant | |
// |---|---|
// | kHeads, kDim, kRows, ..., kBlocks | see index_score.hip; kDim: of 32 |
// | kRectangleHeads | heads at a time: 8, 16 or 32 |
// | kSharedBytes | what the launch reserves |

#include "state_rows.h"

constexpr u32 kSegment = kDim / 8, kPart = kSegment;
static_assert(kDim % 32 == 0 && kHeads % kRectangleHeads == 0);
#include "rectangles.h"

constexpr u32 kTile = kRectangleRows;
static_assert(kThreads == kRectangleWaves * kWave);

struct Memory {
  float queries[kHeads * kQueryPitch];
  float keys[kTile * kRowPitch];
  float scores[kHeads * kTile]; ///< [head, key]
};
static_assert(sizeof(Memory) == kSharedBytes);

DS4_DEVICE void run(u32 block, u32 row, const float *q, const float *weights,
                    const u8 *keys, float *result, const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  const u32 visible = (row_position(kRatio, step, row) + 1) / kWindow;
  if (visible <= kTopK || block * kTile >= visible)
    return;
  DS4_BLOCK_MEMORY(bytes, kSharedBytes);
  Memory &memory = *reinterpret_cast<Memory *>(bytes);
  q += static_cast<u64>(row) * kHeads * kDim;
  weights += row * kHeads;
  result += static_cast<u64>(row) * kRows;
  DS4_PREFETCH(8)
  for (u32 i = 4 * thread_x(); i < kHeads * kDim; i += 4 * kThreads) {
    const u32 head = i / kDim, column = i % kDim;
    float four[4];
    load_floats(q + i, four);
    store_floats(memory.queries + head * kQueryPitch +
                     column / kSegment * kQuerySegment + column % kSegment,
                 four);
  }
  for (u32 first = block * kTile; first < visible; first += kBlocks * kTile) {
    // Eight threads decode a key.
    const u32 key = thread_x() / 8, segment = thread_x() % 8;
    if (first + key < visible) {
      float values[kSegment];
      state_values(kStorage, kDim,
                   keys + static_cast<u64>(first + key) * kRowBytes,
                   segment * kSegment, values);
      store_floats(memory.keys + key * kRowPitch + segment * kRowSegment,
                   values);
    }
    barrier();
    if (first + wave_row() < visible) {
#pragma unroll 1
      for (u32 head = 0; head < kHeads; head += kRectangleHeads) {
        LaneSums sums = {};
        add_columns(memory.queries + head * kQueryPitch, memory.keys, 0, sums);
        each_product(sums, [&](u32 h, u32 r, float sum) {
          memory.scores[(head + h) * kTile + r] = max_f32(0.0f, sum);
        });
      }
    }
    barrier();
    // The others load and decode the next tile.
    if (wave() == 0 && first + lane() < visible) {
      float score = 0.0f;
      DS4_PREFETCH(8)
      for (u32 h = 0; h < kHeads; ++h)
        score = fma_f32(weights[h] * kScale, memory.scores[h * kTile + lane()],
                        score);
      result[first + lane()] = score;
    }
  }
}
