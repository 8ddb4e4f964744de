// f16.h - weights as binary16.
#ifndef DS4_OPS_WEIGHTS_F16_H
#define DS4_OPS_WEIGHTS_F16_H

#include "formats.h"

using namespace format_f16;

/// Element i of a row.
DS4_DEVICE float weight_at(const u8 *row, u32 i, const float *) {
  return load_f16(row + 2 * i);
}

#endif // DS4_OPS_WEIGHTS_F16_H
