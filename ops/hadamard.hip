// hadamard.hip - orthonormal Walsh-Hadamard transform of each vector, natural
// order. With n = kGroup * kStride, a lane first does the stages below kGroup
// on kGroup neighbours, then, through LDS, the others on kStride values that
// lie kGroup apart: one exchange instead of one a stage.
//
// | constant | |
// |---|---|
// | kVectors, kDim | vectors a row, values a vector (a power of two) |
// | kGroup, kStride | kDim = kGroup * kStride |
// | kBlockVectors | vectors a block |
// | kFactor | f32(1 / sqrt(kDim)) |

#include "butterflies.h"

/// Vector v starts at v * kPitch; one pad a bank row keeps both passes free of
/// bank conflicts.
constexpr u32 kPitch = kDim + kDim / 32;
DS4_DEVICE u32 slot(u32 vector, u32 i) { return vector * kPitch + i + i / 32; }

DS4_DEVICE void run(u32 block, u32 row, const float *x, float *result,
                    const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  DS4_SHARED float shared[kBlockVectors * kPitch];
  const u32 first = block * kBlockVectors;
  const u32 left = kVectors - first;
  const u32 vectors = left < kBlockVectors ? left : kBlockVectors;
  x += (static_cast<u64>(row) * kVectors + first) * kDim;
  result += (static_cast<u64>(row) * kVectors + first) * kDim;

  for (u32 work = thread_x(); work < vectors * kStride; work += kThreads) {
    const u32 vector = work / kStride, begin = work % kStride * kGroup;
    float v[kGroup];
    for (u32 i = 0; i < kGroup; ++i)
      v[i] = x[vector * kDim + begin + i];
    butterflies(v);
    for (u32 i = 0; i < kGroup; ++i)
      shared[slot(vector, begin + i)] = v[i];
  }
  barrier();
  for (u32 work = thread_x(); work < vectors * kGroup; work += kThreads) {
    const u32 vector = work / kGroup, begin = work % kGroup;
    float v[kStride];
    for (u32 i = 0; i < kStride; ++i)
      v[i] = shared[slot(vector, begin + i * kGroup)];
    butterflies(v);
    for (u32 i = 0; i < kStride; ++i)
      result[vector * kDim + begin + i * kGroup] = v[i] * kFactor;
  }
}
