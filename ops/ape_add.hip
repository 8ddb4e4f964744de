// ape_add.hip - gate + learned embedding of the position inside a window. A
// thread does a channel.
//
//   result[t, c] = gate[t, c] + ape[position mod R, c]
//
// | constant | |
// |---|---|
// | kChannels | C |
// | kPeriod | R, rows of ape |

#include "elements.h"

constexpr u32 kRowBytes = kChannels / kBlockElements * kBlockBytes;

DS4_DEVICE void run(u32 block, u32 row, const float *gate, const u8 *ape,
                    float *result, const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  gate += static_cast<u64>(row) * kChannels;
  result += static_cast<u64>(row) * kChannels;
  ape += row_position(kRatio, step, row) % kPeriod * kRowBytes;
  for (u32 c = tile_begin(block); c < tile_end(block, kChannels);
       c += kThreads) {
    result[c] = gate[c] + weight_at(ape, c, nullptr);
  }
}
