// linear_tile.hip - linear and grouped_linear for many rows of activations, by
// tiles (tile.h): a block does kTileRows rows of a group for kColumns rows of
// x.
//
//   y[t, g, n] = W[g, n] . x[t, g]
//
// | constant | |
// |---|---|
// | kOut | rows of a group |
// | kGroups | 1 for linear |
// | kColumns | rows of x that a block does; `row` counts groups of so many |

#include "tile_mma.h"

#include "tile.h"

DS4_DEVICE void run(u32 block, u32 row, const u8 *__restrict__ x,
                    const u8 *__restrict__ weight, const u8 *__restrict__ books,
                    float *__restrict__ result, const Step *step) {
  const u32 rows = row_count(kRatio, step), begin = row * kColumns;
  if (begin >= rows)
    return;
  constexpr u32 kTiles = (kOut + kTileRows - 1) / kTileRows;
  const u32 group = block / kTiles, first = block % kTiles * kTileRows;
  tile_products(
      weight + (static_cast<u64>(group) * kOut + first) * kRowBytes,
      kOut - first, books, x, rows - begin < kColumns ? rows - begin : kColumns,
      [&](u32 v) { return (begin + v) * kGroups + group; },
      [&](u32 v, u32 i, float y) {
        const u64 t = begin + v;
        result[(t * kGroups + group) * kOut + first + i] = y;
      });
}
