// top_k.hip - the k visible rows with the highest scores, ascending by row. One
// block a query: a radix search, 8 bits of the order key at a time, finds the
// key of the k-th best and how many rows of exactly this key belong to the k;
// then each thread lists the chosen rows of its own stretch. If threads keep
// the keys, neighbours have those of neighbouring rows, and a byte of LDS a row
// says to who lists it how it compares.
//
// | constant | |
// |---|---|
// | kRows | scores a query |
// | kTopK | k |
// | kWindow | tokens a compressed row |
// | kScan | 1: 256 threads, a bin each; sums before a bin go by shuffles |
// | kKept | with kScan: most rows of a thread, whose keys it keeps; or 0 |

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
  // Keys of every kThreads-th row, all loads on their way together.
  u32 keys[kKept ? kKept : 1];
  if constexpr (kKept != 0) {
    bool nan = false;
    DS4_REGISTERS
    for (u32 i = 0; i < kKept; ++i) {
      const u32 w = thread_x() + i * kThreads;
      const float score = w < visible ? scores[w] : 0.0f;
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
  // Rows first, first + next, ..., key i of the thread's.
  const u32 first = kKept ? thread_x() : begin, next = kKept ? kThreads : 1;
  const u32 last = kKept ? visible : end, own = kKept ? kKept : stretch;
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
      if (first + i * next < last)
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

  // How row begin + i compares with the k-th best.
  constexpr u32 kBelow = 0, kEqual = 1, kAbove = 2;
  static_assert(kKept * kThreads <= 16384);
  u8 *compared = kKept ? shared_bytes<kKept ? 16384 : 1>() : nullptr;
  const auto compare = [&](u32 key) -> u32 {
    return key > prefix ? kAbove : key == prefix ? kEqual : kBelow;
  };
  if constexpr (kKept != 0) {
    DS4_REGISTERS
    for (u32 i = 0; i < kKept; ++i)
      compared[thread_x() + i * kThreads] = static_cast<u8>(compare(keys[i]));
    barrier();
  }
  const auto compared_at = [&](u32 w) -> u32 {
    return kKept ? u32{compared[w]} : compare(order_key(scores[w]));
  };

  DS4_SHARED u32 above[kThreads], equal[kThreads];
  DS4_SHARED u32 above_groups[kThreads / 8], equal_groups[kThreads / 8];
  u32 above_here = 0, equal_here = 0;
  for (u32 w = begin; w < end; ++w) {
    const u32 how = compared_at(w);
    above_here += how == kAbove;
    equal_here += how == kEqual;
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
  for (u32 w = begin; w < end; ++w) {
    const u32 how = compared_at(w);
    if (how == kAbove || (how == kEqual && ties < wanted))
      result[at++] = static_cast<i32>(w);
    ties += how == kEqual;
  }
}
