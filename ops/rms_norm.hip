// rms_norm.hip - x / sqrt(mean(x^2) + eps), times a gain if there is one. One
// block a vector: its threads share the 256 partial sums; a lone wave, for a
// short vector, keeps eight a lane.
//
// | constant | |
// |---|---|
// | kVectors, kDim | vectors a row (gridX), values a vector |
// | kHasWeight | 1: there is a gain |
// | kEps | |
// | kKept | 1: 256 threads have few enough values to keep them, for GPUs |

#include "sums.h"

/// The sum of squares of the vector whose values i = thread, thread + 256, ...
/// the calling thread has squared and added; in every thread.
DS4_DEVICE float sum_of_partials(float mine) {
  DS4_SHARED float partials[256];
  partials[thread_x()] = mine;
  barrier();
  float lane_partials[8];
  for (u32 j = 0; j < 8; ++j)
    lane_partials[j] = partials[kWave * j + lane()];
  return wave_sum(tree8(lane_partials));
}

/// By 256 threads, each of which keeps its values in registers.
DS4_DEVICE void norm_kept(const float *x, const float *weight, float *result) {
  constexpr u32 kMine = (kDim + 255) / 256;
  float values[kMine], gains[kMine], sum = 0.0f;
  DS4_REGISTERS
  for (u32 j = 0; j < kMine; ++j)
    if (const u32 i = thread_x() + 256 * j; i < kDim) {
      values[j] = x[i];
      gains[j] = kHasWeight ? weight[i] : 1.0f;
    }
  DS4_REGISTERS
  for (u32 j = 0; j < kMine; ++j)
    if (thread_x() + 256 * j < kDim)
      sum = fma_f32(values[j], values[j], sum);
  const float r = inverse_rms(sum_of_partials(sum), kDim, kEps);
  DS4_REGISTERS
  for (u32 j = 0; j < kMine; ++j)
    if (const u32 i = thread_x() + 256 * j; i < kDim) {
      const float scaled = values[j] * r;
      result[i] = kHasWeight ? scaled * gains[j] : scaled;
    }
}

DS4_DEVICE void run(u32 block, u32 row, const float *x, const float *weight,
                    float *result, const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  const u64 first = (static_cast<u64>(row) * kVectors + block) * kDim;
  x += first;
  result += first;

  if constexpr (kKept != 0) {
    norm_kept(x, weight, result);
    return;
  }
  float sum;
  if constexpr (kThreads > kWave) {
    DS4_SHARED float partials[256];
    for (u32 j = thread_x(); j < 256; j += kThreads) {
      float p = 0.0f;
      DS4_PREFETCH(16)
      for (u32 i = j; i < kDim; i += 256)
        p = fma_f32(x[i], x[i], p);
      partials[j] = p;
    }
    barrier();
    float lane_partials[8];
    for (u32 j = 0; j < 8; ++j)
      lane_partials[j] = partials[kWave * j + lane()];
    sum = wave_sum(tree8(lane_partials));
  } else {
    sum = wave_sum(squares_share(x, kDim));
  }

  const float r = inverse_rms(sum, kDim, kEps);
  // Loads of a batch before its stores, so that they are on their way together.
  constexpr u32 kBatch = 8;
  for (u32 first = thread_x(); first < kDim; first += kBatch * kThreads) {
    float values[kBatch];
    DS4_REGISTERS
    for (u32 b = 0; b < kBatch; ++b)
      if (const u32 i = first + b * kThreads; i < kDim) {
        const float scaled = x[i] * r;
        values[b] = kHasWeight ? scaled * weight[i] : scaled;
      }
    DS4_REGISTERS
    for (u32 b = 0; b < kBatch; ++b)
      if (const u32 i = first + b * kThreads; i < kDim)
        result[i] = values[b];
  }
}
