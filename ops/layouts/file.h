// file.h - rows in layout `file`: whole blocks. A layout declares
// segment_shares and load_blocks; the decoder has been included before.
// Constant that codegen prints: kIn (columns).
#include "layouts/codes_dot.h"
#include "sums.h"

/// Segmented order, each x as kIn codes and kIn / 32 scales: the shares of the
/// calling lane, which does segment lane() % 8, in the products of `count`
/// columns. A product is the segment sum of its shares. Each block is decoded
/// once for all columns. `books`: the int8 books of a format that has them,
/// otherwise nothing. A template also because formats that int8 activations
/// never meet have no block_dot.
template <typename Code, u32 kCount, typename... Books>
DS4_DEVICE void segment_shares(const u8 *row,
                               const Code *const (&codes)[kCount],
                               const float *const (&scales)[kCount], u32 count,
                               float (&sums)[8], Books... books) {
  const u32 blocks = kIn / 32, segment = lane() % 8;
  const u32 end = segment_begin(blocks, segment + 1);
  for (u32 b = segment_begin(blocks, segment); b < end; ++b)
#pragma unroll
    for (u32 c = 0; c < kCount; ++c)
      if (kCount == 1 || c < count)
        sums[c] = codes_dot(row, b, codes[c] + 32 * b, scales[c][b], sums[c],
                            books...);
}

/// Rows have no parts here (layouts/row_parts.h).
template <u32 kMatrices> struct RowsOfMatrices {
  const u8 *rows[kMatrices], *books[kMatrices];
  float *y[kMatrices];
};
template <u32 kMatrices, typename Columns>
void share_rows(const RowsOfMatrices<kMatrices> &, Columns, u32) = delete;

/// Blocks of 32 from `first` on of a segment of `segment_blocks`, in the
/// format's byte order.
template <u32 kCount>
DS4_DEVICE void load_blocks(const u8 *row, u32 segment, u32 first,
                            u32 segment_blocks,
                            u8 (&blocks)[kCount * kBlockBytes]) {
  __builtin_memcpy(blocks,
                   row + (segment * segment_blocks + first) * kBlockBytes,
                   kCount * kBlockBytes);
}
