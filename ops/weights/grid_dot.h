// grid_dot.h - weight_at and block_dot for the IQ types whose codes are entries
// of a grid (grids.h). The decoder has declared
//
//   Group group_at(row, b)    where elements 32 b, ..., 32 b + 31 of a row are
//   u64 eight_at(group, l)    magnitudes of elements 8 l, ..., a byte each
//   u32 signs_at(group, l)    their signs, a bit each
//   float scale_at(group)
//
// Value: signed magnitude times scale.

/// Element i of a row.
DS4_DEVICE float weight_at(const u8 *row, u32 i, const float *) {
  const Group group = group_at(row, i / 32);
  const u32 l = i % 32 / 8, j = i % 8;
  const i32 magnitude = static_cast<i32>(eight_at(group, l) >> (8 * j) & 255);
  const i32 level = signs_at(group, l) >> j & 1 ? -magnitude : magnitude;
  return static_cast<float>(level) * scale_at(group);
}

/// acc + elements 32 b, ... times 32 codes of scale d, in one fma.
DS4_DEVICE float block_dot(const u8 *row, u32 b, const i8 *codes, float d,
                           float acc) {
  const Group group = group_at(row, b);
  i32 sum = 0;
  for (u32 l = 0; l < 4; ++l) {
    const u64 eight = eight_at(group, l);
    const u32 signs = signs_at(group, l);
    for (u32 j = 0; j < 8; ++j) {
      const i32 magnitude = static_cast<i32>(eight >> (8 * j) & 255);
      const i32 product = magnitude * codes[8 * l + j];
      sum += signs >> j & 1 ? -product : product;
    }
  }
  return fma_f32(static_cast<float>(sum) * scale_at(group), d, acc);
}
