// argmax_tiles.hip - the best logit of each of kBlocks slices of a row, by
// blocks of their own, into scratch memory, where argmax_merge.hip finds it.
//
// | constant | |
// |---|---|
// | kVocab | V |
// | kBlocks | slices |

#include "best.h"

DS4_DEVICE void run(u32 block, u32 row, const float *logits, Best *scratch,
                    StepStatus *status, const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  logits += static_cast<u64>(row) * kVocab;
  Best best = {0, ~0u};
  bool nan = false;
  DS4_PREFETCH(8)
  for (u32 i = block * kThreads + thread_x(); i < kVocab;
       i += kBlocks * kThreads) {
    nan |= is_nan(logits[i]);
    best = better(best, {order_key(logits[i]), i});
  }
  if (nan)
    report_nan(status, row);
  best = best_of_block(best);
  if (thread_x() == 0)
    scratch[row * kBlocks + block] = best;
}
