// index_score.hip - how much a query wants each compressed row. A thread does
// rows of the cache, with the decoded key in LDS; the queries of all heads are
// the same for every lane.
//
//   result[w] = sum_h u_h scale max(q_h . key_w, 0), ascending h; a NaN product
//   stays one
//
// | constant | |
// |---|---|
// | kHeads, kDim | H, n |
// | kRows, kRowBytes, kStorage | the cache of keys |
// | kWindow | tokens a compressed row |
// | kTopK | nothing to do while so many rows or fewer are visible |
// | kScale | |
// | kBlocks | blocks a query, which take turns over the rows |

#include "state_rows.h"
#include "sums.h"

// Odd, so that lanes that read one element of their keys meet different banks.
constexpr u32 kPitch = kDim | 1;

DS4_DEVICE void run(u32 block, u32 row, const float *__restrict__ q,
                    const float *__restrict__ weights,
                    const u8 *__restrict__ keys, float *__restrict__ result,
                    const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  const u32 visible = (row_position(kRatio, step, row) + 1) / kWindow;
  if (visible <= kTopK)
    return;
  // Each thread decodes its key into its own slot: no barrier.
  DS4_SHARED float decoded[kThreads * kPitch];
  float *key = decoded + thread_x() * kPitch;
  q += static_cast<u64>(row) * kHeads * kDim;
  weights += row * kHeads;
  result += static_cast<u64>(row) * kRows;
  for (u32 w = block * kThreads + thread_x(); w < visible;
       w += kBlocks * kThreads) {
    const u8 *packed = keys + static_cast<u64>(w) * kRowBytes;
    for (u32 i = 0; i < kDim; ++i)
      key[i] = state_value(kStorage, kDim, packed, i);
    float score = 0.0f;
    for (u32 h = 0; h < kHeads; ++h) {
      float p[8] = {0, 0, 0, 0, 0, 0, 0, 0};
      add_segments(q + h * kDim, key, kDim, 0, 8, p);
      score = fma_f32(weights[h] * kScale, max_f32(0.0f, tree8(p)), score);
    }
    result[w] = score;
  }
}
