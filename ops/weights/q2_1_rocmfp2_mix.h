// q2_1_rocmfp2_mix.h - adaptive ROCmFP2 (type 106): 2-bit codes as in type 107;
// the byte of a half is a UE4M3 scale in bits 0-6 and the codebook in bit 7.
// books: the expert's f32 [2, 4].
#include "codes.h"
#include "formats.h"

using namespace format_q2_1_rocmfp2_mix;

/// Element i of a row.
DS4_DEVICE float weight_at(const u8 *row, u32 i, const float *books) {
  const u8 *block = row + i / 32 * kBlockBytes;
  const u32 meta = block[8 + i % 32 / 16];
  return books[4 * (meta >> 7) + fp2_code(block, i % 32)] *
         f32_from_ue4m3(meta & 0x7f);
}
