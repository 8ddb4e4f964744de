// hc_mix.hip - the dot products of ds4.hc_pre, each by a block of its own, into
// scratch memory, where hc_spread.hip finds them: of the first kMembers blocks
// those of pre and post, then the sum of squares; of the others those of comb,
// then the sum of squares again. Same sums as stream_mixes(): wave w of eight
// has the partial sums 32 w + lane of the strided order.
//
// | constant | |
// |---|---|
// | kStreams, kHidden, kMixes | as in hc_pre.hip |
// | kMembers | blocks of either group: M max(2, M) + 1 |

#include "streams.h"

/// The row is in LDS before the streams come, if it is small enough.
constexpr u32 kBytes = kFlat / kBlockElements * kBlockBytes;
constexpr bool kStaged = kBytes % 16 == 0 && kBytes <= 32768;

/// By all threads of the block, without a barrier.
DS4_DEVICE const u8 *staged_row(const u8 *row) {
  alignas(16) DS4_SHARED u8 bytes[kStaged ? kBytes : 16];
  DS4_PREFETCH(8)
  for (u32 i = 16 * thread_x(); i < kBytes; i += 16 * kThreads) {
    u8 some[16];
    load_aligned<16>(some, row + i);
    store_aligned<16>(bytes + i, some);
  }
  return bytes;
}

/// What the calling thread multiplies: elements thread, thread + 256, ....
constexpr u32 kMine = kFlat / kThreads;

/// Its weights, decoded before the streams come.
template <typename Row>
DS4_DEVICE void decode_row(Row row, float (&weights)[kMine]) {
  if constexpr (kShufflesAreCheap && kHasPlainScales<u32> && kMine % 32 == 0) {
    // The lanes of a wave are at one block together.
    float scales[kMine / 32];
    DS4_REGISTERS
    for (u32 i = 0; i < kMine / 32; ++i)
      scales[i] = plain_scale(row, 8 * (32 * i + lane()) + wave());
    DS4_REGISTERS
    for (u32 i = 0; i < kMine; ++i)
      weights[i] = plain_level(row, thread_x() + i * kThreads) *
                   shfl(scales[i / 32], i % 32);
  } else {
    DS4_REGISTERS
    for (u32 i = 0; i < kMine; ++i)
      weights[i] = weight_at(row, thread_x() + i * kThreads, nullptr);
  }
}

DS4_DEVICE void run(u32 block, u32 row, const float *streams, const u8 *fn,
                    float *scratch, const Step *step) {
  const bool comb = block >= kMembers;
  const u32 member = block % kMembers;
  const u32 count = kStreams * (comb ? kStreams : 2);
  if (row >= row_count(kRatio, step) || member > count)
    return;
  const bool squares = member == count;
  static_assert(kThreads == 8 * kWave && kFlat % kThreads == 0);
  DS4_SHARED float partial[kThreads];
  const float *f = streams + static_cast<u64>(row) * kFlat;
  float weights[kMine], values[kMine], sum = 0.0f;
  if (!squares) {
    const u8 *at = fn + (comb ? 2 * kStreams + member : member) * kBytes;
    if constexpr (kStaged) {
      at = staged_row(at);
      barrier();
    }
    decode_row(at, weights);
  }
  wait_for_previous();
  DS4_REGISTERS
  for (u32 i = 0; i < kMine; ++i)
    values[i] = f[thread_x() + i * kThreads];
  DS4_REGISTERS
  for (u32 i = 0; i < kMine; ++i)
    sum = fma_f32(squares ? values[i] : weights[i], values[i], sum);
  partial[thread_x()] = sum;
  barrier();
  if (wave() != 0)
    return;
  float p[8];
#pragma unroll
  for (u32 j = 0; j < 8; ++j)
    p[j] = partial[kWave * j + lane()];
  sum = wave_sum(tree8(p));
  if (lane() == 0)
    scratch[2 * row * kMembers + block] = sum;
}
