// argmax.hip - index of the greatest logit, the lowest of equals. One block a
// row: a thread finds the best of its logits, then the block the best of those.
//
// | constant | |
// |---|---|
// | kVocab | V |

#include "best.h"

DS4_DEVICE void run(u32 block, u32 row, const float *logits, i32 *result,
                    StepStatus *status, const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  logits += static_cast<u64>(row) * kVocab;
  Best best = {0, ~0u};
  for (u32 i = thread_x(); i < kVocab; i += kThreads) {
    if (is_nan(logits[i]))
      report_nan(status, row);
    best = better(best, {order_key(logits[i]), i});
  }
  best = best_of_block(best);
  if (thread_x() == 0)
    result[row] = static_cast<i32>(best.index);
}
