// f16.h - weights as binary16.
#include "formats.h"

using namespace format_f16;

/// Element i of a row.
DS4_DEVICE float weight_at(const u8 *row, u32 i, const float *) {
  return load_f16(row + 2 * i);
}
