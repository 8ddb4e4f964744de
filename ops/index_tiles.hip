// index_tiles.hip - ds4.index_score with the heads spread over waves, for GPUs:
// a block does 32 rows of the cache, whose decoded keys are in LDS; a wave does
// its share of the heads, a lane a row; one wave adds the heads up.
//
//   result[w] = sum_h u_h scale max(q_h . key_w, 0), ascending h; a NaN product
//   stays one
//
// | constant | |
// |---|---|
// | kHeads, kDim, kRows, ..., kBlocks | see index_score.hip; kDim: of 32 |

#include "state_rows.h"
#include "sums.h"

constexpr u32 kTile = 32, kWaves = kThreads / kWave, kTogether = 4;
constexpr u32 kSegment = kDim / 8;
static_assert(kDim % 32 == 0 && kThreads == 8 * kTile);
/// Lanes that read 16 bytes of different keys meet different banks.
constexpr u32 kPitch = kDim + 4;

/// max(q_h . key, 0) for kTogether heads from `head` on; a lane a key.
DS4_DEVICE void score_heads(const float *q, const float *keys, u32 head,
                            float *scores) {
  float p[kTogether][8] = {};
  for (u32 i = 0; i < kSegment; i += 4)
    DS4_REGISTERS
  for (u32 s = 0; s < 8; ++s) {
    float key[4];
    load_floats(keys + lane() * kPitch + s * kSegment + i, key);
    DS4_REGISTERS
    for (u32 h = 0; h < kTogether; ++h) {
      const u32 at = head + h < kHeads ? head + h : kHeads - 1;
      float four[4];
      load_floats(q + at * kDim + s * kSegment + i, four);
      DS4_REGISTERS
      for (u32 j = 0; j < 4; ++j)
        p[h][s] = fma_f32(four[j], key[j], p[h][s]);
    }
  }
  DS4_REGISTERS
  for (u32 h = 0; h < kTogether; ++h)
    if (head + h < kHeads)
      scores[(head + h) * kTile + lane()] = max_f32(0.0f, tree8(p[h]));
}

DS4_DEVICE void run(u32 block, u32 row, const float *q, const float *weights,
                    const u8 *keys, float *result, const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  const u32 visible = (row_position(kRatio, step, row) + 1) / kWindow;
  if (visible <= kTopK)
    return;
  alignas(16) DS4_SHARED float decoded[kTile * kPitch];
  DS4_SHARED float scores[kHeads * kTile];
  q += static_cast<u64>(row) * kHeads * kDim;
  weights += row * kHeads;
  result += static_cast<u64>(row) * kRows;
  for (u32 first = block * kTile; first < visible; first += kBlocks * kTile) {
    // Eight threads decode a key.
    const u32 key = thread_x() / 8, part = thread_x() % 8 * kSegment;
    if (first + key < visible) {
      float values[kSegment];
      state_values(kStorage, kDim,
                   keys + static_cast<u64>(first + key) * kRowBytes, part,
                   values);
      store_floats(decoded + key * kPitch + part, values);
    }
    barrier();
    for (u32 head = wave() * kTogether; head < kHeads;
         head += kWaves * kTogether)
      score_heads(q, decoded, head, scores);
    barrier();
    if (wave() == 0 && first + lane() < visible) {
      float score = 0.0f;
      DS4_PREFETCH(8)
      for (u32 h = 0; h < kHeads; ++h)
        score = fma_f32(weights[h] * kScale, scores[h * kTile + lane()], score);
      result[first + lane()] = score;
    }
    barrier();
  }
}
