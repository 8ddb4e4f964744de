// rectangles.h - dot products in segmented order of kRectangleHeads vectors
// with the 32 rows of a tile, both in LDS, by eight waves: a lane does
// kLaneHeads vectors by four rows of a segment. Bits of a lane's number: 0
// which rows of eight, 1 which vectors, 2 to 4 the segment, so that lane xor 1
// shares its vectors and lane xor 2 its rows, and what a wave reads at a time
// is in different banks. Constants:
//
// | kRectangleHeads | 8, 16 or 32 |
// | kSegment | columns of a segment, a multiple of 4 |
// | kPart | of them, those that the rows in LDS have, a multiple of 4 |

static_assert(kRectangleHeads == 8 || kRectangleHeads == 16 ||
              kRectangleHeads == 32);
static_assert(kPart % 4 == 0 && kSegment % kPart == 0);

/// Distances in LDS of segments, vectors and rows.
constexpr u32 kQuerySegment = kSegment + 4, kQueryPitch = 8 * kQuerySegment - 4;
constexpr u32 kRowSegment = kPart + 4, kRowPitch = 8 * kRowSegment - 4;

constexpr u32 kRectangleWaves = 8, kRectangleRows = 32;
constexpr u32 kLaneHeads = kRectangleHeads / 4, kLaneRows = 4;
constexpr u32 kHeadRun = kLaneHeads < 4 ? kLaneHeads : 4;
constexpr u32 kRowWaves = kRectangleRows / (2 * kLaneRows);
typedef float LaneSums[kLaneHeads][kLaneRows];

DS4_DEVICE u32 rectangle_wave() { return wave() % kRectangleWaves; }

/// Distance of vector i of a lane from its first.
DS4_DEVICE constexpr u32 head_step(u32 i) {
  return i / kHeadRun * 2 * kHeadRun + i % kHeadRun;
}
DS4_DEVICE u32 lane_head() {
  return rectangle_wave() / kRowWaves * (kRectangleHeads / 2) +
         lane() / 2 % 2 * kHeadRun;
}
/// The first row of the wave, of the lane.
DS4_DEVICE u32 wave_row() {
  return rectangle_wave() % kRowWaves * 2 * kLaneRows;
}
DS4_DEVICE u32 lane_row() { return wave_row() + lane() % 2 * kLaneRows; }

/// Adds the products of columns first, ..., first + kPart - 1 of each segment,
/// which are those of the rows in LDS.
DS4_DEVICE void add_columns(const float *queries, const float *rows, u32 first,
                            LaneSums &sums) {
  const u32 segment = lane() / 4;
  const float *query =
      queries + lane_head() * kQueryPitch + segment * kQuerySegment + first;
  const float *row = rows + lane_row() * kRowPitch + segment * kRowSegment;
#pragma unroll 1
  for (u32 column = 0; column < kPart; column += 4) {
    float k[kLaneRows][4], four[2][4];
    load_floats(query, four[0]);
    DS4_REGISTERS
    for (u32 j = 0; j < kLaneRows; ++j)
      load_floats(row + j * kRowPitch, k[j]);
    DS4_REGISTERS
    for (u32 i = 0; i < kLaneHeads; ++i) {
      // The next head's values come while this one's are used.
      if (i + 1 < kLaneHeads)
        load_floats(query + head_step(i + 1) * kQueryPitch, four[(i + 1) % 2]);
      DS4_REGISTERS
      for (u32 c = 0; c < 4; ++c)
        DS4_REGISTERS
      for (u32 j = 0; j < kLaneRows; ++j)
        sums[i][j] = fma_f32(four[i % 2][c], k[j][c], sums[i][j]);
    }
    query += 4;
    row += 4;
  }
}

/// Adds the segments of eight sums, which are in lanes xor 4, 8, 16; a lane
/// gets the sum whose number is its segment.
DS4_DEVICE float sum_of_segments(const float (&values)[8]) {
  float four[4], two[2];
  DS4_REGISTERS
  for (u32 i = 0; i < 4; ++i)
    four[i] = pair_share(values[2 * i], values[2 * i + 1], 4);
  DS4_REGISTERS
  for (u32 i = 0; i < 2; ++i)
    two[i] = pair_share(four[2 * i], four[2 * i + 1], 8);
  float sum = pair_share(two[0], two[1], 16);
  keep_here(sum);
  return sum;
}

/// store(vector, row, sum) for each product; every one is some lane's.
template <typename Store>
DS4_DEVICE void each_product(const LaneSums &sums, Store store) {
  DS4_REGISTERS
  for (u32 first = 0; first < kLaneHeads * kLaneRows; first += 8) {
    float values[8];
    DS4_REGISTERS
    for (u32 v = 0; v < 8; ++v)
      values[v] = sums[(first + v) % kLaneHeads][(first + v) / kLaneHeads];
    const u32 own = first + lane() / 4;
    store(lane_head() + head_step(own % kLaneHeads),
          lane_row() + own / kLaneHeads, sum_of_segments(values));
  }
}
