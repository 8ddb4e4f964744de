// f16.h - weights as binary16.
#ifndef DS4_OPS_WEIGHTS_F16_H
#define DS4_OPS_WEIGHTS_F16_H

constexpr u32 kBlockElements = 1, kBlockBytes = 2;

/// Element i of a row.
DS4_DEVICE float weight_at(const u8 *row, u32 i, const float *) {
  return load_f16(row + 2 * i);
}

#endif // DS4_OPS_WEIGHTS_F16_H
