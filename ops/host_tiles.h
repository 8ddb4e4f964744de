// host_tiles.h - the matrix instructions of the GPU targets, emulated
// on the host lane by lane from their documents: what a kernel puts into which
// lane is checked without a GPU. Included by tile_mma.h.
#ifndef DS4_OPS_HOST_TILES_H
#define DS4_OPS_HOST_TILES_H

/// What the 32 lanes of the wave give.
struct WaveValues {
  u32 of[kWave];
};

DS4_DEVICE WaveValues exchange_values(u32 value) {
  ds4::HostWave *wave = ds4::hostWave();
  const u32 *given = wave->api->exchange(wave, value);
  WaveValues values;
  __builtin_memcpy(values.of, given, sizeof values.of);
  return values;
}

/// Signed V_WMMA_I32_16X16X16_IU8 of a wave of 32 (RDNA3 ISA guide 7.9): lane l
/// holds line l mod 16 of A and column l mod 16 of B, both in both halves of
/// the wave; sum e of lane l is of line 2 e + l / 16 and column l mod 16. Lanes
/// that should hold the same and do not spoil the sums.
DS4_DEVICE void emulated_wmma_16x16x16(const u32 *a, const u32 *b,
                                       i32 (&sums)[8]) {
  for (u32 r = 0; r < 4; ++r) {
    const WaveValues lines = exchange_values(a[r]);
    const WaveValues columns = exchange_values(b[r]);
    const u32 other = lane() ^ 16u;
    const i32 spoilt = static_cast<i32>(lines.of[lane()] != lines.of[other] ||
                                        columns.of[other] != b[r]);
    for (u32 e = 0; e < 8; ++e)
      sums[e] = dot4(lines.of[2 * e + lane() / 16], b[r], sums[e]) + spoilt;
  }
}

/// One wave's part of wgmma.m64n32k16 of binary16 with sums in f32 (PTX ISA,
/// "Register fragments for wgmma.mma_async.m64nNk16"): with g = l / 4 and
/// t = l mod 4, lane l holds two values of A from 2 t and from 2 t + 8 on, of
/// the lines g (a[0], a[2]) and g + 8 (a[1], a[3]); sum 4 j + e is of line
/// g + 8 (e / 2) and column 8 j + 2 t + e mod 2. Column n of B has 8 values at
/// b + 16 n, the other 8 `eight` bytes behind. A sum that f32 does not hold
/// exactly becomes a NaN: the chip's order is not known.
DS4_DEVICE void emulated_wgmma_64x32x16(const u32 *a, const u8 *b, u32 eight,
                                        bool add, float *sums) {
  WaveValues lines[4];
  for (u32 r = 0; r < 4; ++r)
    lines[r] = exchange_values(a[r]);
  const u32 g = lane() / 4, t = lane() % 4;
  for (u32 e = 0; e < 16; ++e) {
    const u8 *column = b + 16 * (e / 4 * 8 + 2 * t + e % 2);
    double sum = add ? sums[e] : 0.0;
    for (u32 k = 0; k < 16; ++k) {
      const u32 pair = lines[e % 4 / 2 + k / 8 * 2].of[4 * g + k % 8 / 2];
      sum +=
          static_cast<double>(f32_from_f16(pair >> (16 * (k % 2)) & 0xffffu)) *
          f32_from_f16(load_u16(column + k / 8 * eight + k % 8 * 2));
    }
    sums[e] = static_cast<float>(sum);
    if (sums[e] != sum)
      sums[e] = float_of(0x7fc00000u);
  }
}

#endif // DS4_OPS_HOST_TILES_H
