// group_pairs.hip - pairs of token and expert by expert: a stable counting sort
// by one block. A thread does an expert: it counts its pairs, then writes them
// behind those of the experts before.
//
//   result = the pairs p of the step, sorted by experts[p], then by p
//
// | constant | |
// |---|---|
// | kExperts | experts that there are |
// | kUsed | experts of a token |

DS4_DEVICE void run(u32 block, u32 row, const i32 *experts, i32 *result,
                    const Step *step) {
  if (row != 0) // the group of rows 0 is the whole step
    return;
  const u32 pairs = row_count(kRatio, step) * kUsed;
  DS4_SHARED u32 counts[kExperts];
  for (u32 e = thread_x(); e < kExperts; e += kThreads) {
    u32 count = 0;
    for (u32 p = 0; p < pairs; ++p)
      count += static_cast<u32>(experts[p]) == e;
    counts[e] = count;
  }
  barrier();
  for (u32 e = thread_x(); e < kExperts; e += kThreads) {
    if (counts[e] == 0)
      continue;
    u32 at = 0;
    for (u32 before = 0; before < e; ++before)
      at += counts[before];
    for (u32 p = 0; p < pairs; ++p)
      if (static_cast<u32>(experts[p]) == e)
        result[at++] = static_cast<i32>(p);
  }
}
