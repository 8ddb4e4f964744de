// top_k.hip - the k visible rows with the highest scores, ascending by row. One
// block a query: a radix search, 8 bits of the order key at a time, finds the
// key of the k-th best and how many rows of exactly this key belong to the k;
// then each thread lists the chosen rows of its own stretch.
//
// | constant | |
// |---|---|
// | kRows | scores a query |
// | kTopK | k |
// | kWindow | tokens a compressed row |
// | kScan | 1: 256 threads, a bin each; sums before a bin go by shuffles |
// | kKept | with kScan: most rows of a thread, whose keys it keeps |

#include "selection.h"

constexpr u32 kBins = 256;

DS4_DEVICE void run(u32 block, u32 row, const float *scores, i32 *result,
                    StepStatus *status, const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  const u32 all = (row_position(kRatio, step, row) + 1) / kWindow;
  const u32 visible = all < kRows ? all : kRows;
  scores += static_cast<u64>(row) * kRows;
  result += static_cast<u64>(row) * kTopK;
  if (visible <= kTopK) {
    for (u32 i = thread_x(); i < visible; i += kThreads)
      result[i] = static_cast<i32>(i);
    return;
  }
  const u32 stretch = (visible + kThreads - 1) / kThreads;
  const u32 begin = thread_x() * stretch;
  const u32 end = begin + stretch < visible ? begin + stretch : visible;
  // Keys of the thread's own stretch, all loads on their way together.
  u32 keys[kKept ? kKept : 1];
  if constexpr (kKept != 0) {
    bool nan = false;
    DS4_REGISTERS
    for (u32 i = 0; i < kKept; ++i) {
      const float score = begin + i < end ? scores[begin + i] : 0.0f;
      nan |= is_nan(score);
      keys[i] = order_key(score);
    }
    if (nan)
      report_nan(status, row);
  } else {
    for (u32 w = thread_x(); w < visible; w += kThreads)
      if (is_nan(scores[w]))
        report_nan(status, row);
  }
  const u32 own = kKept ? kKept : stretch; // those before `end` exist
  const auto key_of = [&](u32 i) -> u32 {
    return kKept ? keys[kKept ? i : 0] : order_key(scores[begin + i]);
  };

  // Bins in descending order of the digit, so that the sum before a bin counts
  // the better keys.
  DS4_SHARED u32 bins[kBins], groups[kBins / 8];
  DS4_SHARED u32 found[2];
  u32 prefix = 0, wanted = kTopK;
  for (i32 shift = 24; shift >= 0; shift -= 8) {
    for (u32 b = thread_x(); b < kBins; b += kThreads)
      bins[b] = 0;
    barrier();
    DS4_REGISTERS
    for (u32 i = 0; i < own; ++i)
      if (begin + i < end)
        if (const u32 key = key_of(i);
            shift == 24 || key >> (shift + 8) == prefix)
          count_shared(&bins[kBins - 1 - (key >> shift) % kBins]);
    barrier();
    if constexpr (kScan == 0) {
      sum_groups(bins, kBins, groups);
      barrier();
    }
    for (u32 b = thread_x(); b < kBins; b += kThreads) {
      const u32 better =
          kScan ? sum_of_earlier(bins[b]) : sum_before(bins, groups, b);
      if (better < wanted && wanted <= better + bins[b]) {
        found[0] = kBins - 1 - b;
        found[1] = better;
      }
    }
    barrier();
    prefix = prefix << 8 | found[0];
    wanted -= found[1];
  }

  DS4_SHARED u32 above[kThreads], equal[kThreads];
  DS4_SHARED u32 above_groups[kThreads / 8], equal_groups[kThreads / 8];
  u32 above_here = 0, equal_here = 0;
  DS4_REGISTERS
  for (u32 i = 0; i < own; ++i)
    if (begin + i < end) {
      const u32 key = key_of(i);
      above_here += key > prefix;
      equal_here += key == prefix;
    }
  u32 ties, at;
  if constexpr (kScan != 0) {
    // Fewer than 2^16 of either go into one sum.
    static_assert(kScan == 0 || kRows < 65536);
    const u32 both = sum_of_earlier(above_here << 16 | equal_here);
    at = both >> 16;
    ties = both & 65535;
  } else {
    above[thread_x()] = above_here;
    equal[thread_x()] = equal_here;
    barrier();
    sum_groups(above, kThreads, above_groups);
    sum_groups(equal, kThreads, equal_groups);
    barrier();
    ties = sum_before(equal, equal_groups, thread_x());
    at = sum_before(above, above_groups, thread_x());
  }
  at += ties < wanted ? ties : wanted;
  DS4_REGISTERS
  for (u32 i = 0; i < own; ++i)
    if (begin + i < end) {
      const u32 key = key_of(i);
      if (key > prefix || (key == prefix && ties < wanted))
        result[at++] = static_cast<i32>(begin + i);
      ties += key == prefix;
    }
}
