// swiglu.hip - the clamped gated unit of an expert. A thread does a value.
//
//   g = min(gate, limit); u = clamp(up, -limit, limit); (g sigmoid(g)) u
//
// | constant | |
// |---|---|
// | kElements | values a row, all experts of it |
// | kLimit | |

#include "elements.h"

DS4_DEVICE void run(u32 block, u32 row, const float *gate, const float *up,
                    float *result, const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  const u64 first = static_cast<u64>(row) * kElements;
  for (u32 e = tile_begin(block); e < tile_end(block, kElements);
       e += kThreads) {
    const float raw_g = gate[first + e], raw_u = up[first + e];
    const float g = raw_g > kLimit ? kLimit : raw_g;
    const float u = raw_u > kLimit ? kLimit : raw_u < -kLimit ? -kLimit : raw_u;
    result[first + e] = (g * sigmoid_f32(g)) * u;
  }
}
