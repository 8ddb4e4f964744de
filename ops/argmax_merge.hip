// argmax_merge.hip - the best of what argmax_tiles.hip has left in scratch
// memory.
//
// | constant | |
// |---|---|
// | kBlocks | slices of a row |

#include "best.h"

DS4_DEVICE void run(u32 block, u32 row, i32 *result, const Best *scratch,
                    const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  const Best none = {0, ~0u};
  const Best best = best_of_block(
      thread_x() < kBlocks ? scratch[row * kBlocks + thread_x()] : none);
  if (thread_x() == 0)
    result[row] = static_cast<i32>(best.index);
}
