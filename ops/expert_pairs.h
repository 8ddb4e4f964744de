// expert_pairs.h - which pairs of token and expert a wave does together: those
// that use one expert, so that its rows are decoded once for them. Either a
// wave leads some pairs of a few tokens, or it does every pair of its expert in
// the whole step, kColumns at a time. Constants: kUsed (experts of a token),
// kColumns, kGrouped (1: pairs of ds4.group_pairs).

/// Numbers t * kUsed + i of pairs that use one expert, ascending.
struct Pairs {
  u32 pair[kColumns];
  u32 count;
};

/// The tokens of a block and their pairs.
struct PairGroup {
  u32 first, tokens;  ///< rows of the step
  const i32 *experts; ///< [tokens, kUsed]
  const i32 *sorted;  ///< kGrouped: of ds4.group_pairs, [tokens, kUsed]

  DS4_DEVICE u32 pairs() const { return tokens * kUsed; }
};

/// Row `row` of the grid: kColumns tokens, or all of them.
DS4_DEVICE PairGroup pair_group(u32 row, const i32 *experts, const i32 *sorted,
                                const Step *step) {
  const u32 rows = row_count(kRatio, step);
  if constexpr (kGrouped)
    return {0, row == 0 ? rows : 0, experts, sorted};
  const u32 first = row * kColumns, left = first < rows ? rows - first : 0;
  return {first, left < kColumns ? left : kColumns,
          experts + static_cast<u64>(first) * kUsed, sorted};
}

/// Places [begin, end) of the pairs that a wave does: in the sorted list or,
/// of the group, the pair that it leads.
struct PairRange {
  u32 begin, end;
};

/// First place of `expert` or one above it in the sorted list.
DS4_DEVICE u32 first_place(const PairGroup &group, u32 expert) {
  u32 low = 0, high = group.pairs();
  while (low < high) {
    const u32 middle = (low + high) / 2;
    if (static_cast<u32>(group.experts[group.sorted[middle]]) < expert)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/// The work of wave `lead`. Grouped, it is that of expert `lead`. Otherwise of
/// an expert's pairs every kColumns-th leads those up to the next leader.
DS4_DEVICE PairRange pairs_of_wave(const PairGroup &group, u32 lead) {
  if constexpr (kGrouped)
    return {first_place(group, lead), first_place(group, lead + 1)};
  if (lead >= group.pairs())
    return {0, 0};
  u32 before = 0;
  if constexpr (kColumns > 1)
    for (u32 p = 0; p < lead; ++p)
      before += group.experts[p] == group.experts[lead];
  return before % kColumns == 0 ? PairRange{lead, lead + 1} : PairRange{0, 0};
}

/// Grouped: places of the pairs of `expert`, which the whole block looks for
/// together. Places are probed at even distances, then those between.
DS4_DEVICE PairRange pairs_of_block(const PairGroup &group, u32 expert) {
  DS4_SHARED u32 below[2][2]; // probes of an expert below it; of it or below
  const u32 pairs = group.pairs(), t = thread_x();
  const u32 distance = (pairs + kThreads - 1) / kThreads;
  if (t < 4)
    below[t / 2][t % 2] = 0;
  barrier();
  // Experts beyond the last place are above all others.
  auto expert_at = [&](u32 place) {
    return place < pairs ? static_cast<u32>(group.experts[group.sorted[place]])
                         : ~0u;
  };
  const u32 probed = expert_at((t + 1) * distance - 1);
  if (probed < expert)
    count_shared(&below[0][0]);
  if (probed <= expert)
    count_shared(&below[0][1]);
  barrier();
  PairRange range = {below[0][0] * distance, below[0][1] * distance};
  for (u32 i = t; i < distance; i += kThreads) {
    if (expert_at(range.begin + i) < expert)
      count_shared(&below[1][0]);
    if (expert_at(range.end + i) <= expert)
      count_shared(&below[1][1]);
  }
  barrier();
  range.begin += below[1][0];
  range.end += below[1][1];
  barrier(); // before anybody counts again
  return range;
}

/// The pairs at place `at` of the range and behind it, at most kColumns.
DS4_DEVICE Pairs pairs_at(const PairGroup &group, u32 at, u32 end) {
  Pairs found;
  if constexpr (kGrouped) {
    found.count = end - at < kColumns ? end - at : kColumns;
    DS4_REGISTERS
    for (u32 c = 0; c < kColumns; ++c)
      found.pair[c] =
          static_cast<u32>(group.sorted[at + (c < found.count ? c : 0)]);
    return found;
  }
  DS4_REGISTERS
  for (u32 c = 0; c < kColumns; ++c)
    found.pair[c] = at;
  found.count = 1;
  if constexpr (kColumns == 1)
    return found;
  for (u32 p = at + 1; p < group.pairs(); ++p) {
    const bool joins = group.experts[p] == group.experts[at];
    DS4_REGISTERS
    for (u32 c = 1; c < kColumns; ++c) // a choice: indices stay constants
      found.pair[c] = joins && c == found.count ? p : found.pair[c];
    found.count += joins && found.count < kColumns;
  }
  return found;
}
