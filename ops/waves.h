// waves.h - a part of the prelude: values that cross the lanes of a wave, and
// the sums whose orders ir/Ds4Dialect.td declares. All lanes must come.
#ifndef DS4_OPS_WAVES_H
#define DS4_OPS_WAVES_H

/// The value of lane `from`, of lane xor `mask`.
DS4_DEVICE u32 shfl(u32 value, u32 from) { return shfl_u32(value, from); }
DS4_DEVICE i32 shfl(i32 value, u32 from) {
  return static_cast<i32>(shfl_u32(static_cast<u32>(value), from));
}
DS4_DEVICE float shfl(float value, u32 from) {
  return float_of(shfl_u32(bits_of(value), from));
}
DS4_DEVICE u32 shfl_xor(u32 value, u32 mask) {
  return shfl_xor_u32(value, mask);
}
DS4_DEVICE i32 shfl_xor(i32 value, u32 mask) {
  return static_cast<i32>(shfl_xor_u32(static_cast<u32>(value), mask));
}
DS4_DEVICE float shfl_xor(float value, u32 mask) {
  return float_of(shfl_xor_u32(bits_of(value), mask));
}

/// x, which the compiler keeps in a register: for NVIDIA it would make what
/// depends on the thread alone anew wherever it is used.
DS4_DEVICE u32 kept(u32 x) {
#if defined(DS4_TARGET_NVIDIA)
  return shfl_u32(x, lane());
#else
  return x;
#endif
}
/// x, which is the same in all lanes, as the compiler then knows.
DS4_DEVICE u32 same_in_wave(u32 x) {
#if defined(DS4_TARGET_NVIDIA)
  return shfl_u32(x, 0);
#elif defined(DS4_TARGET_AMD)
  return static_cast<u32>(__builtin_amdgcn_readfirstlane(static_cast<int>(x)));
#else
  return x;
#endif
}

/// Sum over the 8 lanes 8g ... 8g + 7 of a group, by lane xor 1, 2, 4; every
/// lane gets the sum of its group.
DS4_DEVICE float segment_sum(float value) {
#if defined(DS4_TARGET_HOST)
  ds4::HostWave *wave = ds4::hostWave();
  return wave->api->segmentSum(wave, value);
#else
  DS4_REGISTERS
  for (u32 mask = 1; mask < 8; mask *= 2)
    value += shfl_xor(value, mask);
  keep_here(value);
  return value;
#endif
}

/// Sum over the wave by lane xor 1, 2, 4, 8, 16; every lane gets it.
DS4_DEVICE float wave_sum(float value) {
#if defined(DS4_TARGET_HOST)
  ds4::HostWave *wave = ds4::hostWave();
  return wave->api->waveSum(wave, value);
#else
  DS4_REGISTERS
  for (u32 mask = 1; mask < kWave; mask *= 2)
    value += shfl_xor(value, mask);
  keep_here(value);
  return value;
#endif
}

/// Of two values, the one that a lane keeps (`odd` where its bit of `mask` is
/// set) plus what lane xor `mask` gives away of the same. Both are read first:
/// a choice between places in memory would keep arrays there.
DS4_DEVICE float pair_share(float even, float odd, u32 mask) {
  const bool isOdd = lane() & mask;
  return (isOdd ? odd : even) + shfl_xor(isOdd ? even : odd, mask);
}

/// Eight segment sums at once, with one exchange of eight values instead of
/// eight of one: sum r is over the group's values[r]; lane l gets sum l % 8.
DS4_DEVICE float segment_sums(const float (&values)[8]) {
#if defined(DS4_TARGET_HOST)
  ds4::HostWave *wave = ds4::hostWave();
  return wave->api->segmentSums(wave, values);
#else
  // Each step halves the sums that a lane carries: it keeps those whose number
  // has its own bit and gives the others away.
  float four[4], two[2];
  DS4_REGISTERS
  for (u32 i = 0; i < 4; ++i)
    four[i] = pair_share(values[2 * i], values[2 * i + 1], 1);
  DS4_REGISTERS
  for (u32 i = 0; i < 2; ++i)
    two[i] = pair_share(four[2 * i], four[2 * i + 1], 2);
  float sum = pair_share(two[0], two[1], 4);
  keep_here(sum);
  return sum;
#endif
}

/// Eight wave sums at once; lane l gets sum l % 8.
DS4_DEVICE float wave_sums(const float (&values)[8]) {
#if defined(DS4_TARGET_HOST)
  ds4::HostWave *wave = ds4::hostWave();
  return wave->api->waveSums(wave, values);
#else
  float sum = segment_sums(values);
  sum += shfl_xor(sum, 8);
  sum += shfl_xor(sum, 16);
  keep_here(sum);
  return sum;
#endif
}

#endif // DS4_OPS_WAVES_H
