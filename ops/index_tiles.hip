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

/// Heads whose queries are in LDS at a time.
constexpr u32 kPassHeads = kWaves * kTogether;
constexpr u32 kPassValues = kPassHeads * kDim, kQueries = kHeads * kDim;
constexpr u32 kMine = kPassValues / kThreads;
static_assert(kMine % 4 == 0);

/// The calling thread's values of the queries from value `first` on, by fours.
DS4_DEVICE void load_queries(const float *q, u32 first, float (&mine)[kMine]) {
  DS4_REGISTERS
  for (u32 i = 0; i < kMine; i += 4) {
    const u32 at = first + 4 * thread_x() + i * kThreads;
    float four[4] = {};
    if (at < kQueries)
      load_floats(q + at, four);
    DS4_REGISTERS
    for (u32 j = 0; j < 4; ++j)
      mine[i + j] = four[j];
  }
}

DS4_DEVICE void store_queries(float *to, const float (&mine)[kMine]) {
  DS4_REGISTERS
  for (u32 i = 0; i < kMine; i += 4) {
    float four[4];
    DS4_REGISTERS
    for (u32 j = 0; j < 4; ++j)
      four[j] = mine[i + j];
    store_floats(to + 4 * thread_x() + i * kThreads, four);
  }
}

/// max(q_h . key, 0) for the wave's kTogether heads of a pass; a lane a key.
DS4_DEVICE void score_heads(const float *q, const float *keys, float *scores) {
  float p[kTogether][8] = {};
  const u32 head = wave() * kTogether;
  for (u32 i = 0; i < kSegment; i += 4)
    DS4_REGISTERS
  for (u32 s = 0; s < 8; ++s) {
    float key[4];
    load_floats(keys + lane() * kPitch + s * kSegment + i, key);
    DS4_REGISTERS
    for (u32 h = 0; h < kTogether; ++h) {
      float four[4];
      load_floats(q + (head + h) * kDim + s * kSegment + i, four);
      DS4_REGISTERS
      for (u32 j = 0; j < 4; ++j)
        p[h][s] = fma_f32(four[j], key[j], p[h][s]);
    }
  }
  DS4_REGISTERS
  for (u32 h = 0; h < kTogether; ++h)
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
  DS4_SHARED float scores[kPassHeads * kTile];
  DS4_SHARED float factors[kHeads];
  float *queries = reinterpret_cast<float *>(shared_bytes<4 * kPassValues>());
  q += static_cast<u64>(row) * kQueries;
  weights += row * kHeads;
  result += static_cast<u64>(row) * kRows;
  for (u32 first = block * kTile; first < visible; first += kBlocks * kTile) {
    // All that comes from memory is on its way together.
    float mine[kMine];
    load_queries(q, 0, mine);
    for (u32 h = thread_x(); h < kHeads; h += kThreads)
      factors[h] = weights[h] * kScale;
    // Eight threads decode a key.
    const u32 key = thread_x() / 8, part = thread_x() % 8 * kSegment;
    if (first + key < visible) {
      float values[kSegment];
      state_values(kStorage, kDim,
                   keys + static_cast<u64>(first + key) * kRowBytes, part,
                   values);
      store_floats(decoded + key * kPitch + part, values);
    }
    float score = 0.0f;
    for (u32 head = 0; head < kHeads; head += kPassHeads) {
      store_queries(queries, mine);
      barrier();
      if (head + kPassHeads < kHeads)
        load_queries(q, (head + kPassHeads) * kDim, mine);
      score_heads(queries, decoded, scores);
      barrier();
      if (wave() == 0) {
        const u32 left = kHeads - head;
        const u32 heads = left < kPassHeads ? left : kPassHeads;
        DS4_PREFETCH(8)
        for (u32 h = 0; h < heads; ++h)
          score = fma_f32(factors[head + h], scores[h * kTile + lane()], score);
      }
    }
    if (wave() == 0 && first + lane() < visible)
      result[first + lane()] = score;
    barrier();
  }
}
