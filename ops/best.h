// best.h - the best of scored indices, by all threads of a block.
#include "selection.h"

/// A key and its index; empty ones lose to every score.
struct Best {
  u32 key, index;
};

DS4_DEVICE Best better(Best a, Best b) {
  return b.key > a.key || (b.key == a.key && b.index < a.index) ? b : a;
}

/// The best of all threads', in thread 0: of groups of eight, then of those.
DS4_DEVICE Best best_of_block(Best best) {
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
  if (thread_x() == 0)
    for (u32 g = 1; g < kThreads / 8; ++g)
      best = better(best, groups[g]);
  return best;
}
