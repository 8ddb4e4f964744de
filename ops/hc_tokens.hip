// hc_tokens.hip - ds4.hc_pre for long steps on a GPU: a block does kColumns
// rows, `row` counts groups of so many, so that a decoded weight serves all of
// them. Thread t has partial sum t of the strided order, of about kPassMixes
// dot products of every row at a time. The capacity is of whole groups: what
// lies behind the step is read, and nothing made of it.
//
// | constant | |
// |---|---|
// | kStreams, ..., kHcEps | as in hc_pre.hip |
// | kColumns | rows of a block, a wave each for the small matrices |

#include "hc_gates.h"

constexpr u32 kPassMixes = 12, kPitch = kMixes + 1;
constexpr u32 kWaves = kThreads / kWave, kTogether = kWaves / kColumns;
static_assert(kWaves == 8 && kWaves % kColumns == 0 && kFlat % kThreads == 0);

/// mixes[c * kPitch + first + j] from all threads' partial sums mine[c][j], in
/// turns of kTogether, each sum by a wave. A barrier is behind.
template <u32 kCount>
DS4_DEVICE void sum_rows(const float (&mine)[kColumns][kCount], u32 first,
                         float *mixes) {
  DS4_SHARED float partials[kWaves * kThreads];
  DS4_REGISTERS
  for (u32 begin = 0; begin < kCount; begin += kTogether) {
    DS4_REGISTERS
    for (u32 j = 0; j < kTogether; ++j)
      if (begin + j < kCount)
        DS4_REGISTERS
    for (u32 c = 0; c < kColumns; ++c)
      partials[(j * kColumns + c) * kThreads + thread_x()] = mine[c][begin + j];
    barrier();
    float p[8];
    DS4_REGISTERS
    for (u32 i = 0; i < 8; ++i)
      p[i] = partials[wave() * kThreads + kWave * i + lane()];
    const float sum = wave_sum(tree8(p));
    const u32 j = begin + wave() / kColumns;
    if (lane() == 0 && j < kCount)
      mixes[wave() % kColumns * kPitch + first + j] = sum;
    barrier();
  }
}

/// mixes[c * kPitch + j] for the mixes [first, first + kCount) of the group's
/// rows, whose streams are f; mix kMixes is the sum of squares.
template <u32 kCount>
DS4_DEVICE void mix_rows(const float *f, const u8 *fn, u32 first,
                         float *mixes) {
  float mine[kColumns][kCount] = {};
  DS4_PREFETCH(4)
  for (u32 i = thread_x(); i < kFlat; i += kThreads) {
    float values[kColumns];
    DS4_REGISTERS
    for (u32 c = 0; c < kColumns; ++c)
      values[c] = f[c * kFlat + i];
    DS4_REGISTERS
    for (u32 j = 0; j < kCount; ++j) {
      const bool squares = first + j == kMixes;
      const float weight =
          squares ? 0.0f
                  : weight_at(fn + (first + j) * row_bytes(kFlat), i, nullptr);
      DS4_REGISTERS
      for (u32 c = 0; c < kColumns; ++c)
        mine[c][j] =
            fma_f32(squares ? values[c] : weight, values[c], mine[c][j]);
    }
  }
  sum_rows(mine, first, mixes);
}

DS4_DEVICE void run(u32 block, u32 row, const float *streams, const u8 *fn,
                    const float *scale, const float *base, float *x,
                    float *post, float *comb, const Step *step) {
  const u32 rows = row_count(kRatio, step), begin = row * kColumns;
  if (begin >= rows)
    return;
  const u32 count = rows - begin < kColumns ? rows - begin : kColumns;
  const float *f = streams + static_cast<u64>(begin) * kFlat;
  DS4_SHARED float mixes[kColumns * kPitch];
  DS4_SHARED float pre[kColumns * kStreams];
  constexpr u32 kWhole = (kMixes - 1) / kPassMixes * kPassMixes;
  for (u32 first = 0; first < kWhole; first += kPassMixes)
    mix_rows<kPassMixes>(f, fn, first, mixes);
  mix_rows<kMixes + 1 - kWhole>(f, fn, kWhole, mixes);

  const float *own = mixes + wave() % kColumns * kPitch;
  float gates[kStreams];
  gates_by_lanes(own, own[kMixes], scale, base, gates);
  if (wave() < kColumns && lane() == 0)
    for (u32 i = 0; i < kStreams; ++i)
      pre[wave() * kStreams + i] = gates[i];
  if (wave() < count) {
    const float r = inverse_rms(own[kMixes], kFlat, kEps);
    const u32 t = begin + wave();
    if (lane() < kStreams)
      post[t * kStreams + lane()] =
          2.0f * gate(own, scale, base, kStreams + lane(), r);
    mix_by_lanes(own + 2 * kStreams, r, scale, base,
                 comb + t * kStreams * kStreams);
  }
  barrier();
  for (u32 c = 0; c < count; ++c)
    collapse(f + c * kFlat, pre + c * kStreams,
             x + static_cast<u64>(begin + c) * kHidden, 0);
}
