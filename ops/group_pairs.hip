// group_pairs.hip - pairs of token and expert by expert: a stable counting sort
// by one block. A wave does a run of neighbouring pairs, 32 at a time: it
// counts those of each expert, then writes its pairs behind those of the
// experts before and, of their own, of the waves before.
//
//   result = the pairs p of the step, sorted by experts[p], then by p
//
// | constant | |
// |---|---|
// | kExperts | experts that there are |
// | kUsed | experts of a token |

constexpr u32 kRuns = kThreads / kWave;

/// One of 32 neighbouring pairs, and its like among them.
struct PairOfRun {
  u32 expert;  ///< kExperts: the pair is not there
  u32 before;  ///< of the 32, those of the expert that come before it
  u32 of_kind; ///< all of the expert
};

/// Pair `begin` + lane().
DS4_DEVICE PairOfRun pair_of_run(const i32 *experts, u32 begin, u32 end) {
  PairOfRun pair = {kExperts, 0, 0};
  const u32 count = begin < end ? (end - begin < 32 ? end - begin : 32) : 0;
  if (lane() >= count)
    return pair;
  pair.expert = static_cast<u32>(experts[begin + lane()]);
  for (u32 other = 0; other < count; ++other)
    if (static_cast<u32>(experts[begin + other]) == pair.expert) {
      ++pair.of_kind;
      pair.before += other < lane();
    }
  return pair;
}

DS4_DEVICE void run(u32 block, u32 row, const i32 *experts, i32 *result,
                    const Step *step) {
  if (row != 0) // the group of rows 0 is the whole step
    return;
  const u32 pairs = row_count(kRatio, step) * kUsed;
  // Pairs of a run and expert; then the place of the next such pair.
  DS4_SHARED u32 places[kRuns][kExperts];
  DS4_SHARED u32 totals[kExperts];
  for (u32 i = thread_x(); i < kRuns * kExperts; i += kThreads)
    places[i / kExperts][i % kExperts] = 0;
  const u32 steps = (pairs + kThreads - 1) / kThreads;
  const u32 first = wave() * steps * kWave;
  barrier();
  for (u32 i = 0; i < steps; ++i) {
    const PairOfRun pair = pair_of_run(experts, first + i * kWave, pairs);
    if (pair.expert < kExperts && pair.before == 0)
      places[wave()][pair.expert] += pair.of_kind;
    barrier();
  }
  for (u32 e = thread_x(); e < kExperts; e += kThreads) {
    u32 total = 0;
    for (u32 r = 0; r < kRuns; ++r)
      total += places[r][e];
    totals[e] = total;
  }
  barrier();
  for (u32 e = thread_x(); e < kExperts; e += kThreads) {
    u32 at = 0;
    for (u32 before = 0; before < e; ++before)
      at += totals[before];
    for (u32 r = 0; r < kRuns; ++r) {
      const u32 count = places[r][e];
      places[r][e] = at;
      at += count;
    }
  }
  barrier();
  for (u32 i = 0; i < steps; ++i) {
    const u32 begin = first + i * kWave;
    const PairOfRun pair = pair_of_run(experts, begin, pairs);
    if (pair.expert < kExperts)
      result[places[wave()][pair.expert] + pair.before] =
          static_cast<i32>(begin + lane());
    barrier();
    if (pair.expert < kExperts && pair.before == 0)
      places[wave()][pair.expert] += pair.of_kind;
    barrier();
  }
}
