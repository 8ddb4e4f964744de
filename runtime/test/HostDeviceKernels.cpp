// HostDeviceKernels.cpp - kernels for HostDeviceTest.cpp, written as emitted
// units are. Right ones, and ones that break the rules of meetings.
#include "ops/prelude.h"

// out[block, thread] = its own number, from the indices.
DS4_KERNEL(64) void indices(u32 *out, const u32 *grid_x) {
  const u32 block = block_y() * *grid_x + block_x();
  out[block * 64 + thread_x()] = block * 1000 + wave() * 100 + lane();
}
DS4_ENTRY(indices)

// Every cross-lane operation, twice, so that lanes run ahead of one another.
DS4_KERNEL(32)
void shuffles(u32 *xored, u32 *from, float *waves, float *segments,
              const float *x) {
  for (u32 i = 0; i < 2; ++i) {
    const u32 at = (block_x() * 2 + i) * kWave + lane();
    xored[at] = shfl_xor(lane() + 100 * i, 5u);
    from[at] = shfl(lane() * 3 + i, (lane() + 1) % kWave);
    segments[at] = segment_sum(x[at]);
    waves[at] = wave_sum(x[at]);
  }
}
DS4_ENTRY(shuffles)

// The sums of eight values at once, twice; sums[i, kind, lane].
DS4_KERNEL(32) void eight_sums(float *sums, const float *x) {
  for (u32 i = 0; i < 2; ++i) {
    float values[8];
    for (u32 r = 0; r < 8; ++r)
      values[r] = x[(i * kWave + lane()) * 8 + r];
    sums[(2 * i) * kWave + lane()] = segment_sums(values);
    sums[(2 * i + 1) * kWave + lane()] = wave_sums(values);
  }
}
DS4_ENTRY(eight_sums)

// Each thread reads what the thread opposite wrote, `rounds` times.
DS4_KERNEL(1024) void rotate(u32 *out, const u32 *threads, const u32 *rounds) {
  DS4_SHARED u32 values[1024];
  const u32 n = *threads, t = thread_x();
  u32 value = block_x() * 7 + t;
  for (u32 i = 0; i < *rounds; ++i) {
    values[t] = value;
    barrier();
    value = values[n - 1 - t] * 3 + shfl_xor(t, 1);
    barrier();
  }
  out[block_x() * n + t] = value;
}
DS4_ENTRY(rotate)

// Waves of a block that meet at a barrier only after some have shuffled.
DS4_KERNEL(256) void uneven_waves(u32 *out) {
  DS4_SHARED u32 sums[8];
  u32 value = thread_x();
  for (u32 i = 0; i < wave(); ++i)
    value += shfl_xor(value, 1 + i);
  if (lane() == 0)
    sums[wave()] = value;
  barrier();
  out[thread_x()] = value + sums[(wave() + 3) % 8];
}
DS4_ENTRY(uneven_waves)

DS4_KERNEL(32) void returns_early(float *out) {
  if (lane() == 7)
    return;
  out[lane()] = wave_sum(1.0f);
}
DS4_ENTRY(returns_early)

DS4_KERNEL(32) void first_lane_returns(float *out) {
  if (lane() == 0)
    return;
  out[lane()] = wave_sum(1.0f);
}
DS4_ENTRY(first_lane_returns)

DS4_KERNEL(32) void different_meetings(float *out) {
  if (lane() < 16)
    barrier();
  else
    out[lane()] = wave_sum(1.0f);
}
DS4_ENTRY(different_meetings)

DS4_KERNEL(64) void first_wave_returns(float *out) {
  if (wave() == 0)
    return;
  barrier();
  out[lane()] = 1.0f;
}
DS4_ENTRY(first_wave_returns)

DS4_KERNEL(64) void last_wave_returns(float *out) {
  if (wave() == 1)
    return;
  barrier();
  out[lane()] = 1.0f;
}
DS4_ENTRY(last_wave_returns)

// Breaks the rules in one block alone.
DS4_KERNEL(32) void block_9_breaks(float *out) {
  if (block_x() == 9 && lane() == 31)
    return;
  out[block_x() * kWave + lane()] = segment_sum(1.0f);
}
DS4_ENTRY(block_9_breaks)

DS4_KERNEL(32) void reports(StepStatus *status) {
  if (block_y() == 3 && lane() == 0)
    report_nan(status, block_y());
}
DS4_ENTRY(reports)

// The loader's kernel, which is written for the compilers of GPUs.
struct Index {
  u32 x, y;
};
#define __global__
#define __launch_bounds__(threads)
#define blockIdx (Index{block_x(), block_y()})
#define threadIdx (Index{thread_x(), 0})
#define DS4_TEXT(...) __VA_ARGS__
#include "runtime/pack_lanes.inc"
DS4_ENTRY(ds4_pack_lanes)
