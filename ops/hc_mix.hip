// hc_mix.hip - the dot products of ds4.hc_pre, each by a block of its own, into
// scratch memory, where hc_spread.hip finds them: of the first kMembers blocks
// those of pre and post, then the sum of squares; of the others those of comb,
// then the sum of squares again. Same sums as stream_mixes().
//
// With kPost, ds4.hc_post makes the streams: every block does so for itself,
// since that takes less long than another launch, and those of the first group
// write a part of them each.
//
// | constant | |
// |---|---|
// | kStreams, kHidden, kMixes | as in hc_pre.hip |
// | kMembers | blocks of either group: M max(2, M) + 1 |
// | kPost | 1: the streams are those before hc_post |

#include "row_block.h"

constexpr u32 kFlat = kStreams * kHidden;
/// What the calling thread multiplies: elements thread, thread + 256, ....
constexpr u32 kMine = kShare<kFlat>;
/// Of a stream.
constexpr u32 kElements = kHidden / kThreads;
static_assert(kHidden % kThreads == 0);

/// The streams behind hc_post from those before it, which `values` holds.
DS4_DEVICE void add_sublayer(const float *y, const float *post,
                             const float *comb, float (&values)[kMine]) {
  float from[kElements], gates[kStreams], mix[kStreams][kStreams];
  DS4_REGISTERS
  for (u32 e = 0; e < kElements; ++e)
    from[e] = y[thread_x() + e * kThreads];
  DS4_REGISTERS
  for (u32 k = 0; k < kStreams; ++k) {
    gates[k] = post[k];
    DS4_REGISTERS
    for (u32 j = 0; j < kStreams; ++j)
      mix[j][k] = comb[j * kStreams + k];
  }
  DS4_REGISTERS
  for (u32 e = 0; e < kElements; ++e) {
    float before[kStreams];
    DS4_REGISTERS
    for (u32 j = 0; j < kStreams; ++j)
      before[j] = values[j * kElements + e];
    DS4_REGISTERS
    for (u32 k = 0; k < kStreams; ++k) {
      float sum = gates[k] * from[e];
      DS4_REGISTERS
      for (u32 j = 0; j < kStreams; ++j)
        sum = fma_f32(mix[j][k], before[j], sum);
      values[k * kElements + e] = sum;
    }
  }
}

DS4_DEVICE void run(u32 block, u32 row, const float *streams, const u8 *fn,
                    const float *y, const float *post, const float *comb,
                    float *made, float *scratch, const Step *step) {
  const bool second = block >= kMembers;
  const u32 member = block % kMembers;
  const u32 count = kStreams * (second ? kStreams : 2);
  if (row >= row_count(kRatio, step) || member > count)
    return;
  const bool squares = member == count;
  float weights[kMine], values[kMine], sum = 0.0f;
  if (!squares)
    decode_share<kFlat>(fn + (second ? 2 * kStreams + member : member) *
                                 row_bytes(kFlat),
                        weights);
  wait_for_previous();
  const u64 first = static_cast<u64>(row) * kFlat;
  DS4_REGISTERS
  for (u32 i = 0; i < kMine; ++i)
    values[i] = streams[first + thread_x() + i * kThreads];
  if constexpr (kPost != 0)
    add_sublayer(y + static_cast<u64>(row) * kHidden, post + row * kStreams,
                 comb + row * kStreams * kStreams, values);
  DS4_REGISTERS
  for (u32 i = 0; i < kMine; ++i)
    sum = fma_f32(squares ? values[i] : weights[i], values[i], sum);
  if constexpr (kPost != 0) {
    // By blocks of the first group, for whose last the streams must be there.
    constexpr u32 kWriters = 2 * kStreams + 1;
    DS4_REGISTERS
    for (u32 i = 0; i < kMine; ++i)
      if (!second && i * kWriters / kMine == member)
        made[first + thread_x() + i * kThreads] = values[i];
  }
  sum = sum_by_first_wave(sum);
  if (thread_x() == 0)
    scratch[2 * row * kMembers + block] = sum;
}
