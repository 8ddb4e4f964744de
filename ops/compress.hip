// compress.hip - pools the tokens of every window that the step completes. A
// thread does a channel of a window: softmax over the tokens' gates, then the
// weighted mean of their kv.
//
//   result = sum e_t k_t / sum e_t, e_t = exp(g_t - max g), ascending t
//
// | constant | |
// |---|---|
// | kRatio | R, tokens a window |
// | kDim | d, channels of a result |
// | kOverlap | 1: the window before comes first, from channels 0 .. d-1 |
// | kKvRows, kGateRows | rows of the two rings |

#include "elements.h"

constexpr u32 kChannels = kOverlap ? 2 * kDim : kDim;

/// Where channel c of a token is: in the step's rows or in the f32 ring.
DS4_DEVICE const float *token_at(const float *rows, const float *ring,
                                 u32 ring_rows, u32 position, u32 start) {
  if (position >= start)
    return rows + static_cast<u64>(position - start) * kChannels;
  return ring + static_cast<u64>(position % ring_rows) * kChannels;
}

DS4_DEVICE void run(u32 block, u32 row, const float *kv, const float *gate,
                    const float *kv_ring, const float *gate_ring, float *result,
                    const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  const u32 start = static_cast<u32>(step->start);
  const u32 here = row_position(kRatio, step, row), end = here + kRatio;
  const u32 begin = kOverlap && here > 0 ? here - kRatio : here;
  result += static_cast<u64>(row) * kDim;
  for (u32 c = tile_begin(block); c < tile_end(block, kDim); c += kThreads) {
    // Tokens of the window itself use the second half of the channels.
    const u32 late = kOverlap ? kDim : 0;
    float m = 0.0f;
    for (u32 t = begin; t < end; ++t) {
      const float g = token_at(gate, gate_ring, kGateRows, t,
                               start)[t < here ? c : c + late];
      m = t == begin ? g : max_f32(m, g);
    }
    float z = 0.0f, v = 0.0f;
    for (u32 t = begin; t < end; ++t) {
      const u32 at = t < here ? c : c + late;
      const float e =
          exp_f32(token_at(gate, gate_ring, kGateRows, t, start)[at] - m);
      z += e;
      v = fma_f32(e, token_at(kv, kv_ring, kKvRows, t, start)[at], v);
    }
    result[c] = div_f32(v, z);
  }
}
