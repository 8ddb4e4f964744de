// file.h - rows in layout `file`: whole blocks. A layout declares
// segment_share; the decoder has been included before. Constant that codegen
// prints: kIn (columns).
#include "sums.h"

/// Segmented order, x as kIn codes and kIn / 32 scales: the share of the
/// calling lane, which does segment lane() % 8. The dot product is the segment
/// sum of the shares. A template only because formats that int8 activations
/// never meet have no block_dot.
template <typename Code>
DS4_DEVICE float segment_share(const u8 *row, const Code *codes,
                               const float *scales) {
  const u32 blocks = kIn / 32, segment = lane() % 8;
  const u32 end = segment_begin(blocks, segment + 1);
  float sum = 0.0f;
  for (u32 b = segment_begin(blocks, segment); b < end; ++b)
    sum = block_dot(row, b, codes + 32 * b, scales[b], sum);
  return sum;
}
