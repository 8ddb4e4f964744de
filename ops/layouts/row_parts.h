// row_parts.h - products of rows in layout `lanes` with int8 vectors, a row by
// all lanes of a wave: lane l does the part l / 8 of the four of segment l % 8.
// Of a lone vector a lane keeps its part in registers for all rows of the wave;
// of several it keeps the row's, decoded once.
//
// | constant | |
// |---|---|
// | kIn, kRowBytes, kBookLevels | see products.h |
// | kLaneRows, kColumns, kThreads | see products.h |
// | kStagedColumns | vectors that are in LDS at a time |
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

/// The lane that has part `part` of all of a row.
DS4_DEVICE u32 lane_of_part(u32 part) { return part % 4 * 8 + part / 4; }

/// A vector in LDS: the codes of each lane's part, 16 bytes more than they
/// have, so that neighbouring lanes meet different banks; then the scales,
/// [kPartGroups][lane].
constexpr u32 kPartPitch = kPartCodes + 16;
constexpr u32 kTogether = kPartGroups % 4 == 0   ? 4
                          : kPartGroups % 2 == 0 ? 2
                                                 : 1;
constexpr u32 kVectorPitch = 32 * kPartPitch + kIn / 32 * 4;

/// Where vector i of those is that are in LDS, kStagedColumns at a time.
DS4_DEVICE u8 *staged_vector(u32 i) {
  DS4_BLOCK_MEMORY(memory, kStagedColumns * kVectorPitch);
  return memory + i * kVectorPitch;
}

/// Bytes at, ..., at + 15 of a vector.
DS4_DEVICE void store_vector_bytes(const u8 (&bytes)[16], u32 at, u8 *to) {
  if (at < kIn) {
    store_aligned<16>(to + lane_of_part(at / kPartCodes) * kPartPitch +
                          at % kPartCodes,
                      bytes);
    return;
  }
  constexpr u32 kWidth = 4 * kTogether;
  DS4_REGISTERS
  for (u32 i = 0; i < 16; i += kWidth) {
    const u32 group = (at - kIn + i) / 4;
    store_aligned<kWidth>(to + 32 * kPartPitch +
                              (lane_of_part(group / kPartGroups) * kPartGroups +
                               group % kPartGroups) *
                                  4,
                          bytes + i);
  }
}

/// Copies the vectors from number `begin` on to LDS, as many as fit, by all
/// threads of the block; a barrier comes after.
template <typename Columns>
DS4_DEVICE void stage_vectors(const Columns &columns, u32 begin) {
  constexpr u32 kBytes = kIn + kIn / 32 * 4, kStep = 16 * kThreads;
  // About 6 loads are on their way together.
  constexpr u32 kLoads = (kBytes + kStep - 1) / kStep;
  constexpr u32 kFit = kLoads < 6 ? 6 / kLoads : 1;
  constexpr u32 kBatch = kFit < kStagedColumns ? kFit : kStagedColumns;
  DS4_REGISTERS
  for (u32 first = 0; first < kStagedColumns; first += kBatch) {
    u8 bytes[kBatch][kLoads][16];
    DS4_REGISTERS
    for (u32 c = 0; c < kBatch; ++c)
      DS4_REGISTERS
    for (u32 i = 0; i < kLoads; ++i)
      if (const u32 at = 16 * thread_x() + i * kStep;
          first + c < kStagedColumns && begin + first + c < columns.count &&
          at < kBytes)
        load_aligned<16>(bytes[c][i], columns.vector(begin + first + c) + at);
    DS4_REGISTERS
    for (u32 c = 0; c < kBatch; ++c)
      DS4_REGISTERS
    for (u32 i = 0; i < kLoads; ++i)
      if (const u32 at = 16 * thread_x() + i * kStep;
          first + c < kStagedColumns && begin + first + c < columns.count &&
          at < kBytes)
        store_vector_bytes(bytes[c][i], at, staged_vector(first + c));
  }
}

DS4_DEVICE void load_vector_part(const u8 *from, PartOfVector &x) {
  DS4_REGISTERS
  for (u32 g = 0; g < kPartGroups; ++g)
    DS4_REGISTERS
  for (u32 i = 0; i < 32; i += 16)
    load_aligned<16>(reinterpret_cast<u8 *>(x.codes[g]) + i,
                     from + lane() * kPartPitch + 32 * g + i);
  DS4_REGISTERS
  for (u32 g = 0; g < kPartGroups; g += kTogether)
    load_aligned<4 * kTogether>(reinterpret_cast<u8 *>(x.scales + g),
                                from + 32 * kPartPitch +
                                    (lane() * kPartGroups + g) * 4);
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

/// acc + group g of a row's part times the 32 codes x.
template <typename... Books>
DS4_DEVICE float part_dot(const PartOfRow &row, u32 g, const u32 (&x)[8],
                          float d, float acc, Books... books) {
  constexpr u32 kRest = kBlockBytes - kSplit, kGroups = kBlockElements / 32;
  u8 block[kBlockBytes];
  __builtin_memcpy(block, row.first + g / kGroups * kSplit, kSplit);
  __builtin_memcpy(block + kSplit, row.second + g / kGroups * kRest, kRest);
  return words_dot(block, g % kGroups, x, d, acc, books...);
}

/// The calling lane's part of a row, its levels and scales decoded.
template <typename Levels> struct DecodedPart {
  Levels groups[kPartGroups];
};

template <typename Levels, typename... Books>
DS4_DEVICE float part_dot(const DecodedPart<Levels> &row, u32 g,
                          const u32 (&x)[8], float d, float acc, Books...) {
  return levels_dot(row.groups[g], x, d, acc);
}

/// A part for several vectors: decoded, if the decoder does that apart.
template <typename... Books>
DS4_DEVICE auto decoded_part(const PartOfRow &row, Books... books) {
  if constexpr (kHasDot4 && kHasBlockDot4<Books...>) {
    constexpr u32 kRest = kBlockBytes - kSplit;
    DecodedPart<decltype(block_levels(row.first, books...))> part;
    DS4_REGISTERS
    for (u32 g = 0; g < kPartGroups; ++g) {
      u8 block[kBlockBytes];
      __builtin_memcpy(block, row.first + g * kSplit, kSplit);
      __builtin_memcpy(block + kSplit, row.second + g * kRest, kRest);
      part.groups[g] = block_levels(block, books...);
    }
    return part;
  } else {
    return row;
  }
}

/// The products of the rows and a vector, in every lane. The sum of a segment
/// goes from part to part: what is added to it is known before, so that every
/// lane takes every turn, with all rows.
template <u32 kRows, typename Row, typename... Books>
DS4_DEVICE void row_products(const Row (&rows)[kRows], const PartOfVector &x,
                             float (&sums)[kRows], Books... books) {
  constexpr u32 kGroups = kBlockElements / 32;
  DS4_REGISTERS
  for (u32 r = 0; r < kRows; ++r)
    sums[r] = 0.0f;
  DS4_REGISTERS
  for (u32 turn = 0; turn < 4; ++turn) {
    DS4_REGISTERS
    for (u32 i = 0; i < kPartBlocks; ++i)
      DS4_REGISTERS
    for (u32 r = 0; r < kRows; ++r) {
      DS4_REGISTERS
      for (u32 g = i * kGroups; g < (i + 1) * kGroups; ++g)
        sums[r] =
            part_dot(rows[r], g, x.codes[g], x.scales[g], sums[r], books...);
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

/// Rows `first`, ... of kRows and the vectors from `begin` on, which are in
/// LDS.
template <u32 kRows, typename Columns, typename... Books>
DS4_DEVICE void column_products(const PartOfRow (&rows)[kRows],
                                const Columns &columns, u32 begin, u32 first,
                                Books... books) {
  decltype(decoded_part(rows[0], books...)) decoded[kRows];
  DS4_REGISTERS
  for (u32 r = 0; r < kRows; ++r)
    decoded[r] = decoded_part(rows[r], books...);
  DS4_UNROLL(1)
  for (u32 c = begin; c < columns.count && c < begin + kStagedColumns; ++c) {
    PartOfVector x;
    load_vector_part(staged_vector(c - begin), x);
    float sums[kRows];
    row_products(decoded, x, sums, books...);
    float mine = sums[0];
    DS4_REGISTERS
    for (u32 r = 1; r < kRows; ++r)
      mine = lane() == r ? sums[r] : mine;
    if (lane() < kRows)
      columns.any_product(c)[first + lane()] = mine;
  }
}

/// Rows by all lanes, one after another; those that follow are on their way
/// meanwhile. All waves of the block come here with the same vectors, which are
/// in LDS already if kSameVectors.
template <bool kSameVectors, typename Columns, typename... Books>
DS4_DEVICE void rows_by_parts(const u8 *matrix, const Columns &columns,
                              u32 first, Books... books) {
  // Together about four blocks and, of a lone vector, at least two rows.
  constexpr u32 kLeast = kColumns == 1 ? 2 : 1;
  constexpr u32 kWhole = kPartGroups < 2 ? 4 : kPartGroups < 4 ? 2 : kLeast;
  constexpr u32 kBatch = kLaneRows < kWhole ? kLaneRows : kWhole;
  static_assert(kLaneRows % kBatch == 0);
  matrix += static_cast<u64>(first) * kRowBytes;
  constexpr u32 kUnrolled = kColumns == 1 ? kLaneRows / kBatch : 1;
  DS4_REGISTERS
  for (u32 begin = 0; begin < kColumns; begin += kStagedColumns) {
    if (begin >= columns.count)
      break;
    PartOfRow next[kBatch];
    DS4_REGISTERS
    for (u32 b = 0; b < kBatch; ++b)
      load_row_part(matrix + b * kRowBytes, next[b]);
    if (!kSameVectors || kStagedColumns < kColumns) {
      wait_for_previous();
      if (kSameVectors || begin != 0)
        barrier();
      stage_vectors(columns, begin);
      barrier();
    }
    PartOfVector part;
    if constexpr (kColumns == 1)
      load_vector_part(staged_vector(0), part);
    float mine = 0.0f;
    DS4_UNROLL(kUnrolled)
    for (u32 r = 0; r < kLaneRows; r += kBatch) {
      PartOfRow rows[kBatch];
      DS4_REGISTERS
      for (u32 b = 0; b < kBatch; ++b) {
        rows[b] = next[b];
        if (r + kBatch < kLaneRows)
          load_row_part(matrix + (r + kBatch + b) * kRowBytes, next[b]);
      }
      if constexpr (kColumns == 1) {
        float sums[kBatch];
        row_products(rows, part, sums, books...);
        DS4_REGISTERS
        for (u32 b = 0; b < kBatch; ++b)
          mine = lane() == r + b ? sums[b] : mine;
      } else {
        column_products(rows, columns, begin, first + r, books...);
      }
    }
    if (kColumns == 1 && lane() < kLaneRows)
      columns.product(0)[first + lane()] = mine;
  }
}

/// y[c][i] = matrix[i] . x[c] for first <= i < first + kLaneRows.
template <bool kSameVectors, typename Columns>
DS4_DEVICE void share_rows(const u8 *matrix, const Columns &columns,
                           const u8 *books, u32 first) {
  if constexpr (kBookLevels != 0)
    rows_by_parts<kSameVectors>(matrix, columns, first, books);
  else
    rows_by_parts<kSameVectors>(matrix, columns, first);
}
