// group_dot_minimum.h - as group_dot.h, for formats whose scales have a
// minimum:
//
//   float minimum_at(group, part)
//
// Value: level times scale, plus minimum; the product is exact in f32.

/// Element i of a row.
DS4_DEVICE float weight_at(const u8 *row, u32 i, const float *) {
  const Group group = group_at(row, i / 32);
  const u32 part = i % 32 * kScales / 32;
  return static_cast<float>(level_at(group, i % 32)) * scale_at(group, part) +
         minimum_at(group, part);
}

/// acc + elements 32 b, ... times 32 codes of scale d: for each scale an fma
/// with the sum of products, then one with the sum of codes.
DS4_DEVICE float block_dot(const u8 *row, u32 b, const i8 *codes, float d,
                           float acc) {
  const Group group = group_at(row, b);
  constexpr u32 kWidth = 32 / kScales;
  for (u32 part = 0; part < kScales; ++part) {
    i32 products = 0, sum = 0;
    DS4_VECTORISE
    for (u32 i = kWidth * part; i < kWidth * (part + 1); ++i) {
      products += level_at(group, i) * codes[i];
      sum += codes[i];
    }
    acc = fma_f32(static_cast<float>(products) * scale_at(group, part), d, acc);
    acc = fma_f32(static_cast<float>(sum) * minimum_at(group, part), d, acc);
  }
  return acc;
}
