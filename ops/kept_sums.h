// kept_sums.h - the balanced tree of eight (both orders of sums end with one,
// ir/Ds4Dialect.td) where the eight partial sums come one after another, many
// trees at a time: at most three partial sums of each wait for their
// neighbours. Constant that codegen prints: kKeepShared (1: two of the three
// are in LDS, not in registers).

/// LDS of a block for n sums a thread.
template <u32 n> struct KeptMemory {
  float of[kKeepShared ? 2 : 1][kKeepShared ? n : 1][kThreads];
};

/// Sums that wait.
template <u32 n> class KeptSums {
public:
  /// Number `which` of the two that may be in LDS.
  DS4_DEVICE KeptSums(KeptMemory<n> &memory, u32 which)
      : place(memory.of[kKeepShared ? which : 0][0] + thread_x()) {}

  DS4_DEVICE void keep(const float (&sums)[n]) {
#pragma unroll
    for (u32 i = 0; i < n; ++i)
      if constexpr (kKeepShared != 0)
        place[i * kThreads] = sums[i];
      else
        values[i] = sums[i];
  }
  /// sums = what was kept + sums.
  DS4_DEVICE void add_to(float (&sums)[n]) const {
#pragma unroll
    for (u32 i = 0; i < n; ++i)
      if constexpr (kKeepShared != 0)
        sums[i] = place[i * kThreads] + sums[i];
      else
        sums[i] = values[i] + sums[i];
  }

private:
  float *place;
  float values[n];
};

/// Adds partial sums `number` of eight to those of their neighbours that wait,
/// or lets them wait. Behind the last ones, `sums` are the sums.
template <u32 n>
DS4_DEVICE void add_partial(u32 number, float (&sums)[n], float (&one)[n],
                            KeptSums<n> &two, KeptSums<n> &four) {
  if (number % 2 == 0) {
#pragma unroll
    for (u32 i = 0; i < n; ++i)
      one[i] = sums[i];
    return;
  }
#pragma unroll
  for (u32 i = 0; i < n; ++i)
    sums[i] = one[i] + sums[i];
  if (number % 4 == 1) {
    two.keep(sums);
    return;
  }
  two.add_to(sums);
  if (number == 3)
    four.keep(sums);
  else
    four.add_to(sums);
}
