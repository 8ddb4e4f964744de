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

DS4_KERNEL(kThreads)
void DS4_SYMBOL(const float *gate, const u8 *ape, float *result,
                const Step *step) {
  const u32 row = block_y();
  if (row >= row_count(kRatio, step))
    return;
  gate += static_cast<u64>(row) * kChannels;
  result += static_cast<u64>(row) * kChannels;
  ape += row_position(kRatio, step, row) % kPeriod * kRowBytes;
  for (u32 item = 0; item < kItems; ++item) {
    const u32 c = element_of(item);
    if (c >= kChannels)
      return;
    result[c] = gate[c] + weight_at(ape, c, nullptr);
  }
}
