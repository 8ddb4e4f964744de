// bf16.h - weights as bfloat16.
#include "formats.h"

using namespace format_bf16;

/// Element i of a row.
DS4_DEVICE float weight_at(const u8 *row, u32 i, const float *) {
  return f32_from_bf16(load_u16(row + 2 * i));
}
