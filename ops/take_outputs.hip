// take_outputs.hip - copies the rows of the tokens that need logits: output row
// i is row count - outputs + i of the step. A thread copies a value.
//
// | constant | |
// |---|---|
// | kElements | values a row |

#include "elements.h"

DS4_DEVICE void run(u32 block, u32 row, const float *x, float *result,
                    const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  const u64 from = static_cast<u64>(row_number(kRatio, step, row)) * kElements;
  const u64 to = static_cast<u64>(row) * kElements;
  for (u32 e = tile_begin(block); e < tile_end(block, kElements);
       e += kThreads) {
    result[to + e] = x[from + e];
  }
}
