// rms_norm.hip - x / sqrt(mean(x^2) + eps), times a gain if there is one. One
// block a vector: 8 waves for a long one, where every thread keeps one of the
// 256 partial sums; one wave for a short one, where a lane keeps eight.
//
// | constant | |
// |---|---|
// | kVectors, kDim | vectors a row (gridX), values a vector |
// | kHasWeight | 1: there is a gain |
// | kThreads | 256 or 32 |
// | kEps | |

#include "sums.h"

DS4_KERNEL(kThreads)
void DS4_SYMBOL(const float *x, const float *weight, float *result,
                const Step *step) {
  const u32 row = block_y();
  if (row >= row_count(kRatio, step))
    return;
  const u64 first = (static_cast<u64>(row) * kVectors + block_x()) * kDim;
  x += first;
  result += first;

  float sum;
  if constexpr (kThreads == 256) {
    DS4_SHARED float partials[256];
    float p = 0.0f;
    for (u32 i = thread_x(); i < kDim; i += 256)
      p = fma_f32(x[i], x[i], p);
    partials[thread_x()] = p;
    barrier();
    float lane_partials[8];
    for (u32 j = 0; j < 8; ++j)
      lane_partials[j] = partials[kWave * j + lane()];
    sum = wave_sum(tree8(lane_partials));
  } else {
    sum = wave_sum(squares_share(x, kDim));
  }

  const float r = inverse_rms(sum, kDim, kEps);
  for (u32 i = thread_x(); i < kDim; i += kThreads) {
    const float scaled = x[i] * r;
    result[i] = kHasWeight ? scaled * weight[i] : scaled;
  }
}
