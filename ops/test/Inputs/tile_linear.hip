// tile_linear.hip - y[t, i] = weight[i] . x[t] by tiles, for tests of tile.h: a
// wave a tile. sizes: columns, rows, vectors. DS4_FORMAT is the decoder's
// header.
#define DS4_SYMBOL tile_linear
#include "common.h"
#include "tile_mma.h"
constexpr u32 kThreads = 32;
#include DS4_FORMAT
#include "tile.h"

DS4_KERNEL(kThreads)
void DS4_SYMBOL(const u8 *x, const u8 *weight, float *y, const u32 *sizes) {
  const u32 columns = sizes[0], rows = sizes[1], vectors = sizes[2];
  const u32 row = block_x() * kTileLines, vector = block_y() * kTileLines;
  const u64 row_bytes = columns / kBlockElements * kBlockBytes;
  const u64 vector_bytes = columns + columns / 32 * 4;
  float sums[8];
  tile_product({weight + row * row_bytes, row_bytes, rows - row},
               {x + vector * vector_bytes, vector_bytes, vectors - vector},
               columns, sums);
  for (u32 e = 0; e < 8; ++e) {
    const u32 i = row + tile_b(e), t = vector + tile_a(e);
    if (i < rows && t < vectors)
      y[static_cast<u64>(t) * rows + i] = sums[e];
  }
}
DS4_ENTRY(DS4_SYMBOL)
