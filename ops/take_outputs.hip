// take_outputs.hip - copies the rows of the tokens that need logits: output row
// i is row count - outputs + i of the step. A thread copies a value.
//
// | constant | |
// |---|---|
// | kElements | values a row |

#include "elements.h"

DS4_KERNEL(kThreads)
void DS4_SYMBOL(const float *x, float *result, const Step *step) {
  const u32 row = block_y();
  if (row >= row_count(kRatio, step))
    return;
  const u64 from = static_cast<u64>(row_number(kRatio, step, row)) * kElements;
  const u64 to = static_cast<u64>(row) * kElements;
  for (u32 item = 0; item < kItems; ++item) {
    const u32 e = element_of(item);
    if (e >= kElements)
      return;
    result[to + e] = x[from + e];
  }
}
