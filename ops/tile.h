// tile.h - 16 rows of a weight times 16 vectors of int8 activations, by one
// wave with integer matrix instructions: the same bits as 256 products of
// dot.h. The integer sum of a block is exact in any order; its fma and the tree
// of the eight segments are those of the segmented order (ir/Ds4Dialect.td).
// The unit has included tile_mma.h and the decoder of the format
// (ops/weights/), which declares group_at, level_at and scale_at.
#include "sums.h"

constexpr u32 kTileLines = 16;

/// Lines of an operand, `stride` bytes apart, of which the first `count` exist:
/// others of the tile read the last one.
struct TileLines {
  const u8 *first;
  u64 stride;
  u32 count;

  DS4_DEVICE const u8 *at(u32 i) const {
    return first + static_cast<u64>(i < count ? i : count - 1) * stride;
  }
};

/// acc[e] = block b of row tile_b(e) times the same block of vector tile_a(e),
/// added to acc[e] with an fma a scale. A vector is `columns` codes, then
/// columns / 32 scales.
DS4_DEVICE void add_tile_block(const TileLines &weights,
                               const TileLines &vectors, u32 columns, u32 b,
                               float (&acc)[8]) {
  u32 codes[kTileRegisters], levels[kTileRegisters];
  for (u32 r = 0; r < kTileRegisters; ++r) {
    const u32 first = tile_first(r);
    codes[r] = load_u32(vectors.at(tile_line(r)) + 32 * b + first);
    const Group group = group_at(weights.at(tile_line(r)), b);
    levels[r] = 0;
    for (u32 i = 0; i < 4; ++i)
      levels[r] |= static_cast<u32>(level_at(group, first + i) & 0xff)
                   << (8 * i);
  }
  // Lanes 0 ... 15 read the scales of a line each.
  const u32 line = lane() % kTileLines;
  const float d = float_of(load_u32(vectors.at(line) + columns + 4 * b));
  const Group group = group_at(weights.at(line), b);
  for (u32 part = 0; part < kScales; ++part) {
    i32 sums[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    if constexpr (kScales == 1)
      tile_mma_i8(codes, levels, sums);
    else
      tile_mma_half_i8(codes, levels, part, sums);
    const float scale = scale_at(group, part);
    for (u32 e = 0; e < 8; ++e)
      acc[e] = fma_f32(static_cast<float>(sums[e]),
                       shfl(scale, tile_b(e)) * shfl(d, tile_a(e)), acc[e]);
  }
}

/// y[e] = row tile_b(e) times vector tile_a(e), by a whole wave. Segments are
/// added as they come: at most three finished sums wait for their neighbours.
DS4_DEVICE void tile_product(const TileLines &weights, const TileLines &vectors,
                             u32 columns, float (&y)[8]) {
  const u32 blocks = columns / 32;
  float one[8], two[8], four[8]; // sums of so many segments
  for (u32 s = 0; s < 8; ++s) {
    float acc[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    const u32 end = segment_begin(blocks, s + 1);
    for (u32 b = segment_begin(blocks, s); b < end; ++b)
      add_tile_block(weights, vectors, columns, b, acc);
    for (u32 e = 0; e < 8; ++e) {
      if (s % 2 == 0) {
        one[e] = acc[e];
        continue;
      }
      const float pair = one[e] + acc[e];
      if (s % 4 == 1) {
        two[e] = pair;
        continue;
      }
      const float quad = two[e] + pair;
      if (s == 3)
        four[e] = quad;
      else
        y[e] = four[e] + quad;
    }
  }
}
