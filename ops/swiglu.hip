// swiglu.hip - the clamped gated unit of an expert. A thread does a value.
//
//   g = min(gate, limit); u = clamp(up, -limit, limit); (g sigmoid(g)) u
//
// | constant | |
// |---|---|
// | kElements | values a row, all experts of it |
// | kLimit | |

#include "elements.h"

DS4_DEVICE float unit(float gate, float up) {
  const float g = gate > kLimit ? kLimit : gate;
  const float u = up > kLimit ? kLimit : up < -kLimit ? -kLimit : up;
  return (g * sigmoid_f32(g)) * u;
}

DS4_DEVICE void run(u32 block, u32 row, const float *gate, const float *up,
                    float *result, const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  const u64 first = static_cast<u64>(row) * kElements;
  // Loads of a batch before its stores, so that they are on their way together.
  constexpr u32 kBatch = 4;
  const u32 end = tile_end(block, kElements);
  for (u32 e = tile_begin(block); e < end; e += kBatch * kThreads) {
    float values[kBatch];
    DS4_REGISTERS
    for (u32 b = 0; b < kBatch; ++b)
      if (const u32 at = e + b * kThreads; at < end)
        values[b] = unit(gate[first + at], up[first + at]);
    DS4_REGISTERS
    for (u32 b = 0; b < kBatch; ++b)
      if (const u32 at = e + b * kThreads; at < end)
        result[first + at] = values[b];
  }
}
