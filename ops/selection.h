// selection.h - order of scores in selections (top_k, argmax, route): an
// integer key a score, and running sums of counts in LDS.
/// Key with the order of the floats: greater float, greater key; -0 and +0
/// have one key. The place of a NaN is fixed but means nothing.
DS4_DEVICE u32 order_key(float score) {
  const u32 bits = score == 0.0f ? 0u : bits_of(score);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

DS4_DEVICE bool is_nan(float x) { return x != x; }

/// groups[g] = values[8g] + ... + values[8g + 7] for n values, n a multiple of
/// 8, by the threads of the block. A barrier comes before and after.
DS4_DEVICE void sum_groups(const u32 *values, u32 n, u32 *groups) {
  for (u32 g = thread_x(); g < n / 8; g += kThreads) {
    u32 sum = 0;
    for (u32 i = 0; i < 8; ++i)
      sum += values[8 * g + i];
    groups[g] = sum;
  }
}

/// values[0] + ... + values[i - 1].
DS4_DEVICE u32 sum_before(const u32 *values, const u32 *groups, u32 i) {
  u32 sum = 0;
  for (u32 g = 0; g < i / 8; ++g)
    sum += groups[g];
  for (u32 j = i / 8 * 8; j < i; ++j)
    sum += values[j];
  return sum;
}

/// Sum of the values of all threads before the calling one, by shuffles; all
/// threads of the block come here.
DS4_DEVICE u32 sum_of_earlier(u32 value) {
  DS4_SHARED u32 of_wave[kThreads / kWave];
  u32 sum = value;
  for (u32 step = 1; step < kWave; step *= 2) {
    const u32 other = shfl(sum, lane() - step);
    sum += lane() >= step ? other : 0;
  }
  barrier(); // who read the sums of the call before
  if (lane() == kWave - 1)
    of_wave[wave()] = sum;
  barrier();
  for (u32 w = 0; w < wave(); ++w)
    sum += of_wave[w];
  return sum - value;
}
