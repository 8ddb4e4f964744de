// host_abi.h - how a kernel that was compiled for the host finds its lane and
// meets the others: shared by the kernels (through prelude.h) and by
// runtime/HostDevice.cpp. Plain structs, no includes.
//
// The lanes of a wave are fibers whose stacks lie side by side in one aligned
// region, so a lane finds everything from its stack pointer: no thread-local
// variable, no call. Measured (EPYC): a lane that reads three indices and
// stores a value takes 3.2 ns in all, and 8.8 ns through a call by pointer.
#ifndef DS4_OPS_HOST_ABI_H
#define DS4_OPS_HOST_ABI_H

namespace ds4 {

inline constexpr unsigned kHostWave = 32;
/// Bytes of a lane's stack slot, guard page included.
inline constexpr unsigned long kHostStackBytes = 65536;
/// Alignment and size of a wave's region.
inline constexpr unsigned long kHostRegionBytes = kHostWave * kHostStackBytes;

struct HostWave;

/// What a lane may wait for. Lanes that wait together must call the same.
struct HostApi {
  /// Every lane gives `value`; returns the 32 values of the wave, by lane.
  /// They stay valid until the lane's next call.
  const unsigned *(*exchange)(HostWave *wave, unsigned value);
  /// The sum of `value` over the wave by lane xor 1, 2, 4, 8, 16.
  float (*waveSum)(HostWave *wave, float value);
  /// The sum over the 8 lanes of a group by lane xor 1, 2, 4.
  float (*segmentSum)(HostWave *wave, float value);
  /// Eight such sums at once, of values[0] ... values[7]; lane l gets sum
  /// l % 8.
  float (*waveSums)(HostWave *wave, const float *values);
  float (*segmentSums)(HostWave *wave, const float *values);
  /// Waits for every lane of the block.
  void (*barrier)(HostWave *wave);
};

/// Start of a wave's region.
struct HostWave {
  unsigned thread[kHostWave]; ///< thread number of the lane on each stack
  unsigned blockX, blockY;
  const HostApi *api;
};

/// The wave of the calling lane. Only on a lane's stack.
inline __attribute__((always_inline)) HostWave *hostWave() {
  const unsigned long sp =
      reinterpret_cast<unsigned long>(__builtin_frame_address(0));
  return reinterpret_cast<HostWave *>(sp & ~(kHostRegionBytes - 1));
}

/// The calling lane's stack number in its wave's region.
inline __attribute__((always_inline)) unsigned hostStack() {
  const unsigned long sp =
      reinterpret_cast<unsigned long>(__builtin_frame_address(0));
  return static_cast<unsigned>((sp / kHostStackBytes) % kHostWave);
}

} // namespace ds4

#endif // DS4_OPS_HOST_ABI_H
