// hc_spread.hip - ds4.hc_pre on a GPU, where hc_mix.hip has left the dot
// products in scratch memory. Block 0 makes post and x, block 1 comb, whose
// long chain of small steps nobody here waits for.
//
// | constant | |
// |---|---|
// | kStreams, ..., kHcEps | as in hc_pre.hip |
// | kMembers | see hc_mix.hip |

#include "hc_gates.h"

DS4_DEVICE void run(u32 block, u32 row, const float *streams,
                    const float *scale, const float *base, float *x,
                    float *post, float *comb, const float *scratch,
                    const Step *step) {
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
  const float squares = mixes[2 * kStreams];
  float gates[kStreams];
  gates_by_lanes(mixes, squares, scale, base, gates);
  collapse(streams + static_cast<u64>(row) * kFlat, gates,
           x + static_cast<u64>(row) * kHidden, 0);
  if (thread_x() < kStreams)
    post[row * kStreams + thread_x()] =
        2.0f * gate(mixes, scale, base, kStreams + thread_x(),
                    inverse_rms(squares, kFlat, kEps));
}
