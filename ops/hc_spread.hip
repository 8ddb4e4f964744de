// hc_spread.hip - ds4.hc_pre on a GPU, where hc_mix.hip has left the dot
// products in scratch memory. Block 0 makes post and x, block 1 comb, whose
// long chain of small steps nobody here waits for. With kNorm, block 0 goes on
// with the norm of x and its quantisation, out of registers.
//
// | constant | |
// |---|---|
// | kStreams, ..., kHcEps | as in hc_pre.hip |
// | kMembers | see hc_mix.hip |
// | kNorm | 1: `normed` is x / sqrt(mean(x^2) + kNormEps) times the gain |
// | kQuantized | with kNorm, 1: `quantized` is that as int8 |

#include "hc_gates.h"

constexpr u32 kElements = kHidden / kThreads;

/// x = sum_i pre_i X_i, elements thread, thread + 256, ....
DS4_DEVICE void collapse_kept(const float (&values)[kStreams][kElements],
                              const float (&pre)[kStreams],
                              float (&x)[kElements]) {
  DS4_REGISTERS
  for (u32 e = 0; e < kElements; ++e) {
    x[e] = pre[0] * values[0][e];
    DS4_REGISTERS
    for (u32 i = 1; i < kStreams; ++i)
      x[e] = fma_f32(pre[i], values[i][e], x[e]);
  }
}

/// x becomes its norm, by all threads of the block (see rms_norm.hip).
DS4_DEVICE void norm_kept(const float (&gains)[kElements],
                          float (&x)[kElements]) {
  static_assert(kThreads == 8 * kWave);
  DS4_SHARED float partials[kThreads];
  float sum = 0.0f, p[8];
  DS4_REGISTERS
  for (u32 e = 0; e < kElements; ++e)
    sum = fma_f32(x[e], x[e], sum);
  partials[thread_x()] = sum;
  barrier();
  DS4_REGISTERS
  for (u32 j = 0; j < 8; ++j)
    p[j] = partials[kWave * j + lane()];
  const float r = inverse_rms(wave_sum(tree8(p)), kHidden, kNormEps);
  DS4_REGISTERS
  for (u32 e = 0; e < kElements; ++e)
    x[e] = x[e] * r * gains[e];
}

/// A wave has 32 neighbours, which share a scale (see quantize.hip).
DS4_DEVICE void quantize_kept(const float (&x)[kElements], u8 *result) {
  float *scales = reinterpret_cast<float *>(result + kHidden);
  DS4_REGISTERS
  for (u32 e = 0; e < kElements; ++e) {
    float amax = max_abs(0.0f, x[e]);
    DS4_REGISTERS
    for (u32 mask = 1; mask < kWave; mask *= 2)
      amax = max_abs(amax, shfl_xor(amax, mask));
    const float scale = int8_scale(amax);
    const u32 at = thread_x() + e * kThreads;
    result[at] = static_cast<u8>(int8_code(x[e], scale));
    if (lane() == 0)
      scales[at / 32] = scale;
  }
}

/// collapse_kept and what follows; mixes: of the row.
DS4_DEVICE void make_input(const float *f, const float *mixes,
                           const float *scale, const float *base,
                           const float *gain, float *normed, u8 *quantized) {
  // All that comes from memory is on its way together.
  float values[kStreams][kElements], gains[kElements], gates[kStreams];
  float x[kElements];
  DS4_REGISTERS
  for (u32 i = 0; i < kStreams; ++i)
    DS4_REGISTERS
  for (u32 e = 0; e < kElements; ++e)
    values[i][e] = f[i * kHidden + thread_x() + e * kThreads];
  DS4_REGISTERS
  for (u32 e = 0; e < kElements; ++e)
    gains[e] = gain[thread_x() + e * kThreads];
  gates_by_lanes(mixes, mixes[2 * kStreams], scale, base, gates);
  collapse_kept(values, gates, x);
  norm_kept(gains, x);
  DS4_REGISTERS
  for (u32 e = 0; e < kElements; ++e)
    normed[thread_x() + e * kThreads] = x[e];
  if constexpr (kQuantized != 0)
    quantize_kept(x, quantized);
}

DS4_DEVICE void run(u32 block, u32 row, const float *streams,
                    const float *scale, const float *base, float *x,
                    float *post, float *comb, const float *gain, float *normed,
                    u8 *quantized, const float *scratch, const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  const float *mixes = scratch + (2 * row + block) * kMembers;
  if (block == 1) {
    const float squares = mixes[kStreams * kStreams];
    if (wave() == 0)
      mix_by_lanes(mixes, inverse_rms(squares, kFlat, kEps), scale, base,
                   comb + row * kStreams * kStreams);
    return;
  }
  const float *f = streams + static_cast<u64>(row) * kFlat;
  const u64 first = static_cast<u64>(row) * kHidden;
  if constexpr (kNorm != 0) {
    make_input(f, mixes, scale, base, gain, normed + first,
               quantized + first / 32 * 36);
  } else {
    float gates[kStreams];
    gates_by_lanes(mixes, mixes[2 * kStreams], scale, base, gates);
    collapse(f, gates, x + first, 0);
  }
  if (thread_x() < kStreams)
    post[row * kStreams + thread_x()] =
        2.0f * gate(mixes, scale, base, kStreams + thread_x(),
                    inverse_rms(mixes[2 * kStreams], kFlat, kEps));
}
