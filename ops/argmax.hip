// argmax.hip - index of the greatest logit, the lowest of equals. One block a
// row: a thread finds the best of its logits, then groups of eight, then one
// thread the best of the groups.
//
// | constant | |
// |---|---|
// | kVocab | V |

#include "selection.h"

/// A key and its index; empty ones lose to every logit.
struct Best {
  u32 key, index;
};

DS4_DEVICE Best better(Best a, Best b) {
  return b.key > a.key || (b.key == a.key && b.index < a.index) ? b : a;
}

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
  DS4_SHARED Best threads[kThreads], groups[kThreads / 8];
  threads[thread_x()] = best;
  barrier();
  if (thread_x() < kThreads / 8) {
    best = threads[8 * thread_x()];
    for (u32 i = 1; i < 8; ++i)
      best = better(best, threads[8 * thread_x() + i]);
    groups[thread_x()] = best;
  }
  barrier();
  if (thread_x() == 0) {
    for (u32 g = 1; g < kThreads / 8; ++g)
      best = better(best, groups[g]);
    result[row] = static_cast<i32>(best.index);
  }
}
