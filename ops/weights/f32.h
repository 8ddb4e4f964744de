// f32.h - weights as binary32.
#include "formats.h"

using namespace format_f32;

/// Element i of a row.
DS4_DEVICE float weight_at(const u8 *row, u32 i, const float *) {
  return float_of(load_word(row + 4 * i));
}
