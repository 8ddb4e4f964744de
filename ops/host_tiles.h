// host_tiles.h - the integer matrix instructions of the GPU targets, emulated
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

/// Signed mma.m16n8k16 (PTX ISA, "Matrix fragments for mma.m16n8k16"): with
/// g = l / 4 and t = l mod 4, lane l holds the values 4 t ... 4 t + 3 of the
/// lines g (a[0]) and g + 8 (a[1]) of A and of column g of B; its sums are of
/// line g, columns 2 t and 2 t + 1, then of line g + 8.
DS4_DEVICE void emulated_mma_16x8x16(u32 a0, u32 a1, u32 b, i32 *sums) {
  const WaveValues low = exchange_values(a0), high = exchange_values(a1);
  const WaveValues columns = exchange_values(b);
  const u32 g = lane() / 4, t = lane() % 4;
  for (u32 e = 0; e < 4; ++e)
    for (u32 q = 0; q < 4; ++q)
      sums[e] = dot4((e < 2 ? low : high).of[4 * g + q],
                     columns.of[4 * (2 * t + e % 2) + q], sums[e]);
}

#endif // DS4_OPS_HOST_TILES_H
