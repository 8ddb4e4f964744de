// q3_1_rocmfp3_mix.h - adaptive ROCmFP3 (type 105): 3-bit codes as in type 104;
// the byte of a half is a UE4M3 scale in bits 0-6 and the codebook in bit 7.
// books: the expert's f32 [2, 8].
#include "codes.h"
#include "formats.h"

using namespace format_q3_1_rocmfp3_mix;

/// Element i of a row.
DS4_DEVICE float weight_at(const u8 *row, u32 i, const float *books) {
  const u8 *block = row + i / 32 * kBlockBytes;
  const u32 meta = block[12 + i % 32 / 16];
  return books[8 * (meta >> 7) + fp3_code(block, i % 32)] *
         f32_from_ue4m3(meta & 0x7f);
}
