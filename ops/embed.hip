// embed.hip - row of the embedding table, copied to every residual stream. A
// thread does an element of all streams.
//
//   result[t, m] = table[tokens[t]]
//
// | constant | |
// |---|---|
// | kStreams, kHidden | M, D |

#include "dot.h"
#include "elements.h"

DS4_DEVICE void run(u32 block, u32 row, const i32 *tokens, const u8 *table,
                    float *result, const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  table += static_cast<u64>(tokens[row]) * row_bytes(kHidden);
  result += static_cast<u64>(row) * kStreams * kHidden;
  for (u32 e = tile_begin(block); e < tile_end(block, kHidden); e += kThreads) {
    const float value = weight_at(table, e, nullptr);
    for (u32 m = 0; m < kStreams; ++m)
      result[m * kHidden + e] = value;
  }
}
