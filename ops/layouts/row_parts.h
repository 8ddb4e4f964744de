// row_parts.h - products of rows in layout `lanes` with one int8 vector, a row
// by all lanes of a wave: lane l does the part l / 8 of the four of segment l
// % 8. A lane keeps its part of the vector in registers for all rows of the
// wave.
//
// | constant | |
// |---|---|
// | kIn, kRowBytes, kBookLevels, kLaneRows, kThreads | see products.h |
// | kSegmentBlocks, ..., kPlane1 | see layouts/lanes.h |

// Blocks of kBlockElements; a shorter segment has no parts.
constexpr u32 kPartBlocks = kSegmentBlocks < 4 ? 1 : kSegmentBlocks / 4;
constexpr u32 kPartGroups = kPartBlocks * (kBlockElements / 32);
constexpr u32 kPartCodes = 32 * kPartGroups;

/// The calling lane's part of a vector, in registers: codes and scales.
struct PartOfVector {
  u32 codes[kPartGroups][8];
  float scales[kPartGroups];
};

/// The calling lane's part of a row.
struct PartOfRow {
  u8 first[kPartBlocks * kSplit];
  u8 second[kPartBlocks * (kBlockBytes - kSplit)];
};

/// Number of the calling lane's part among all of a row.
DS4_DEVICE u32 part_number() { return lane() % 8 * 4 + lane() / 8; }

/// The codes of x, of whole waves, in LDS: parts of 16 bytes more than they
/// have, so that lanes that read their own meet different banks; behind them
/// the scales.
constexpr u32 kPartPitch = kPartCodes + 16;
constexpr u32 kVectorWords = (32 * kPartPitch + kIn / 32 * 4) / 4;

/// Where x is in LDS.
DS4_DEVICE u8 *staged_vector() { return shared_bytes<4 * kVectorWords>(); }

/// Copies x to LDS, by all threads of the block; a barrier comes after.
DS4_DEVICE void stage_vector(const u8 *x) {
  u8 *to = staged_vector();
  for (u32 i = 16 * thread_x(); i < kIn + kIn / 32 * 4; i += 16 * kThreads) {
    u8 bytes[16];
    load_aligned<16>(bytes, x + i);
    store_aligned<16>(to + (i < kIn ? i / kPartCodes * 16 : 32 * 16) + i,
                      bytes);
  }
}

DS4_DEVICE void load_vector_part(PartOfVector &x) {
  const u8 *from = staged_vector();
  DS4_REGISTERS
  for (u32 g = 0; g < kPartGroups; ++g)
    DS4_REGISTERS
  for (u32 i = 0; i < 32; i += 16)
    load_aligned<16>(reinterpret_cast<u8 *>(x.codes[g]) + i,
                     from + part_number() * kPartPitch + 32 * g + i);
  const float *scales = reinterpret_cast<const float *>(from + 32 * kPartPitch);
  DS4_REGISTERS
  for (u32 g = 0; g < kPartGroups; ++g)
    x.scales[g] = scales[part_number() * kPartGroups + g];
}

/// The bytes of the calling lane's part in a plane.
template <u32 kUnit, u32 kBytes>
DS4_DEVICE void load_plane_part(const u8 *plane, u8 (&bytes)[kBytes]) {
  // The widest loads that do not cross a unit.
  constexpr u32 kWhole = kBytes & -kBytes,
                kLoad = kWhole < kUnit ? kWhole : kUnit;
  const u32 begin = lane() / 8 * kBytes;
  DS4_REGISTERS
  for (u32 i = 0; i < kBytes; i += kLoad) {
    const u32 at = begin + i;
    load_aligned<kLoad>(
        bytes + i, plane + (at / kUnit * 8 + lane() % 8) * kUnit + at % kUnit);
  }
}

DS4_DEVICE void load_row_part(const u8 *row, PartOfRow &part) {
  load_plane_part<kUnit0>(row, part.first);
  load_plane_part<kUnit1>(row + kPlane1, part.second);
}

/// The products of the rows and the vector, in every lane. The sum of a segment
/// goes from part to part: what is added to it is known before, so that every
/// lane takes every turn, with all rows.
template <u32 kRows, typename Vector, typename... Books>
DS4_DEVICE void row_products(const PartOfRow (&rows)[kRows], const Vector &x,
                             float (&sums)[kRows], Books... books) {
  constexpr u32 kRest = kBlockBytes - kSplit, kGroups = kBlockElements / 32;
  DS4_REGISTERS
  for (u32 r = 0; r < kRows; ++r)
    sums[r] = 0.0f;
  DS4_REGISTERS
  for (u32 turn = 0; turn < 4; ++turn) {
    DS4_REGISTERS
    for (u32 i = 0; i < kPartBlocks; ++i)
      DS4_REGISTERS
    for (u32 r = 0; r < kRows; ++r) {
      u8 block[kBlockBytes];
      __builtin_memcpy(block, rows[r].first + i * kSplit, kSplit);
      __builtin_memcpy(block + kSplit, rows[r].second + i * kRest, kRest);
      DS4_REGISTERS
      for (u32 g = 0; g < kGroups; ++g)
        sums[r] = words_dot(block, g, x.codes[i * kGroups + g],
                            x.scales[i * kGroups + g], sums[r], books...);
      finish(sums[r]);
    }
    DS4_REGISTERS
    for (u32 r = 0; r < kRows; ++r)
      sums[r] = shfl(sums[r], turn * 8 + lane() % 8);
  }
  DS4_REGISTERS
  for (u32 r = 0; r < kRows; ++r)
    sums[r] = segment_sum(sums[r]);
}

/// One column, rows by all lanes, one after another; those that follow are on
/// their way meanwhile. All waves of the block come here with one x, which is
/// in LDS already if kSameVector.
template <bool kSameVector>
DS4_DEVICE void share_rows(const u8 *matrix, const u8 *x, const u8 *books,
                           u32 first, float *y) {
  // Together about four blocks, at least two rows.
  constexpr u32 kMost = kPartGroups < 2 ? 4 : 2,
                kBatch = kLaneRows < kMost ? kLaneRows : kMost;
  static_assert(kLaneRows % kBatch == 0);
  matrix += static_cast<u64>(first) * kRowBytes;
  PartOfRow next[kBatch];
  DS4_REGISTERS
  for (u32 b = 0; b < kBatch; ++b)
    load_row_part(matrix + b * kRowBytes, next[b]);
  if constexpr (!kSameVector) {
    wait_for_previous();
    stage_vector(x);
    barrier();
  }
  PartOfVector part;
  load_vector_part(part);
  float mine = 0.0f;
  DS4_REGISTERS
  for (u32 r = 0; r < kLaneRows; r += kBatch) {
    PartOfRow rows[kBatch];
    DS4_REGISTERS
    for (u32 b = 0; b < kBatch; ++b) {
      rows[b] = next[b];
      if (r + kBatch < kLaneRows)
        load_row_part(matrix + (r + kBatch + b) * kRowBytes, next[b]);
    }
    float sums[kBatch];
    if constexpr (kBookLevels != 0)
      row_products(rows, part, sums, books);
    else
      row_products(rows, part, sums);
    DS4_REGISTERS
    for (u32 b = 0; b < kBatch; ++b)
      mine = lane() == r + b ? sums[b] : mine;
  }
  if (lane() < kLaneRows)
    y[first + lane()] = mine;
}
