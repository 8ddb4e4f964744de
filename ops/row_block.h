// row_block.h - the dot product of a stored row with an f32 vector by a block
// of eight waves, in the strided order: thread t has partial sum t, whose
// weights it has decoded before the vector comes. Constants: kThreads (256);
// the decoder of the format (ops/weights/) has been included before.
#include "dot.h"

/// Elements of a row of kRow that a thread has: thread, thread + 256, ....
template <u32 kRow> constexpr u32 kShare = kRow / kThreads;

/// The row goes through LDS, if its codes would be loaded byte by byte and are
/// few enough.
template <u32 kRow>
constexpr bool kGoesThroughLds =
    kBlockElements > 1 && kRow / kBlockElements *kBlockBytes % 16 == 0 &&
    kRow / kBlockElements *kBlockBytes <= 32768;

/// By all threads of the block, without a barrier.
template <u32 kRow> DS4_DEVICE const u8 *block_staged_row(const u8 *row) {
  constexpr u32 kBytes = kRow / kBlockElements * kBlockBytes;
  alignas(16) DS4_SHARED u8 bytes[kBytes];
  DS4_PREFETCH(8)
  for (u32 i = 16 * thread_x(); i < kBytes; i += 16 * kThreads) {
    u8 some[16];
    load_aligned<16>(some, row + i);
    store_aligned<16>(bytes + i, some);
  }
  return bytes;
}

/// The calling thread's weights of `row`. A template of its type, since not
/// every decoder gives scales apart.
template <u32 kRow, typename Row>
DS4_DEVICE void decode_share(Row row, float (&weights)[kShare<kRow>]) {
  static_assert(kThreads == 8 * kWave && kRow % kThreads == 0);
  if constexpr (kGoesThroughLds<kRow>) {
    row = block_staged_row<kRow>(row);
    barrier();
  }
  if constexpr (kShufflesAreCheap && kHasPlainScales<u32> &&
                kShare<kRow> % 32 == 0) {
    // The lanes of a wave are at one block together.
    float scales[kShare<kRow> / 32];
    DS4_REGISTERS
    for (u32 i = 0; i < kShare<kRow> / 32; ++i)
      scales[i] = plain_scale(row, 8 * (32 * i + lane()) + wave());
    DS4_REGISTERS
    for (u32 i = 0; i < kShare<kRow>; ++i)
      weights[i] = plain_level(row, thread_x() + i * kThreads) *
                   shfl(scales[i / 32], i % 32);
  } else {
    DS4_REGISTERS
    for (u32 i = 0; i < kShare<kRow>; ++i)
      weights[i] = weight_at(row, thread_x() + i * kThreads, nullptr);
  }
}

/// The sum of the 256 partial sums, of which the calling thread has one; in
/// every lane of the first wave, nothing in others. A barrier comes after the
/// call if there is another.
DS4_DEVICE float sum_by_first_wave(float mine) {
  DS4_SHARED float partial[kThreads];
  partial[thread_x()] = mine;
  barrier();
  if (wave() != 0)
    return 0.0f;
  float p[8];
  DS4_REGISTERS
  for (u32 j = 0; j < 8; ++j)
    p[j] = partial[kWave * j + lane()];
  return wave_sum(tree8(p));
}
