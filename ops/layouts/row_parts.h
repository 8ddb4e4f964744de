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

/// Rows of a wave that are done together: about four blocks.
constexpr u32 kWholeBatch = kPartGroups < 2 ? 4 : kPartGroups < 4 ? 2 : 1;
constexpr u32 kBatch = kLaneRows < kWholeBatch ? kLaneRows : kWholeBatch;
constexpr u32 kBatches = kLaneRows / kBatch;
static_assert(kLaneRows % kBatch == 0);

/// Where vector i of those is that are in LDS, kStagedColumns at a time.
DS4_DEVICE u8 *staged_vector(u32 i) {
  DS4_BLOCK_MEMORY(memory, kStagedColumns * kVectorPitch);
  return memory + i * kVectorPitch;
}

// What a thread copies at a time of a vector: 32 codes, or four scales.
constexpr u32 kCodeItems = kIn / 32, kVectorItems = kCodeItems + kIn / 128;

DS4_DEVICE void load_item(const u8 *vector, u32 item, u32 (&words)[8]) {
  u8 *to = reinterpret_cast<u8 *>(words);
  const bool scales = item >= kCodeItems;
  vector += scales ? kIn + 16 * (item - kCodeItems) : 32 * item;
  load_aligned<16>(to, vector);
  if (!scales)
    load_aligned<16>(to + 16, vector + 16);
}

/// Codes go to LDS in the decoder's order.
template <typename... Books>
DS4_DEVICE void store_item(u32 (&words)[8], u32 item, u8 *to, Books... books) {
  if (item < kCodeItems) {
    order_words(words, books...);
    store_words(to + lane_of_part(item / kPartGroups) * kPartPitch +
                    32 * (item % kPartGroups),
                words);
    return;
  }
  DS4_REGISTERS
  for (u32 i = 0; i < 4; i += kTogether) {
    const u32 group = 4 * (item - kCodeItems) + i;
    store_aligned<4 * kTogether>(
        to + 32 * kPartPitch +
            (lane_of_part(group / kPartGroups) * kPartGroups +
             group % kPartGroups) *
                4,
        reinterpret_cast<const u8 *>(words + i));
  }
}

/// Copies the vectors from number `begin` on to LDS, as many as fit, by all
/// threads of the block; a barrier comes after.
template <typename Columns, typename... Books>
DS4_DEVICE void stage_vectors(const Columns &columns, u32 begin,
                              Books... books) {
  constexpr u32 kLoads = (kVectorItems + kThreads - 1) / kThreads;
  // About 6 loads are on their way together.
  constexpr u32 kFit = kLoads < 3 ? 3 / kLoads : 1;
  constexpr u32 kVectors = kFit < kStagedColumns ? kFit : kStagedColumns;
  DS4_REGISTERS
  for (u32 first = 0; first < kStagedColumns; first += kVectors) {
    u32 words[kVectors][kLoads][8];
    DS4_REGISTERS
    for (u32 c = 0; c < kVectors; ++c)
      DS4_REGISTERS
    for (u32 i = 0; i < kLoads; ++i)
      if (const u32 item = thread_x() + i * kThreads;
          first + c < kStagedColumns && begin + first + c < columns.count &&
          item < kVectorItems)
        load_item(columns.vector(begin + first + c), item, words[c][i]);
    DS4_REGISTERS
    for (u32 c = 0; c < kVectors; ++c)
      DS4_REGISTERS
    for (u32 i = 0; i < kLoads; ++i)
      if (const u32 item = thread_x() + i * kThreads;
          first + c < kStagedColumns && begin + first + c < columns.count &&
          item < kVectorItems)
        store_item(words[c][i], item, staged_vector(first + c), books...);
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

/// Bytes of block `b` of a part.
DS4_DEVICE void part_block(const PartOfRow &row, u32 b,
                           u8 (&block)[kBlockBytes]) {
  constexpr u32 kRest = kBlockBytes - kSplit;
  __builtin_memcpy(block, row.first + b * kSplit, kSplit);
  __builtin_memcpy(block + kSplit, row.second + b * kRest, kRest);
}

/// The calling lane's part of a row, its levels and scales decoded.
template <typename Levels> struct DecodedPart {
  Levels groups[kPartGroups];
};

/// A part decoded, if the decoder does that apart; otherwise the part.
template <typename... Books>
DS4_DEVICE auto decoded_part(const PartOfRow &row, Books... books) {
  if constexpr (kHasDot4 && kHasBlockDot4<Books...>) {
    DecodedPart<decltype(block_levels(row.first, books...))> part;
    DS4_REGISTERS
    for (u32 g = 0; g < kPartGroups; ++g) {
      u8 block[kBlockBytes];
      part_block(row, g, block);
      part.groups[g] = block_levels(block, books...);
    }
    return part;
  } else {
    return row;
  }
}

/// What a part adds to the sum of its segment, in order.
template <typename Dots> struct PartDots {
  Dots groups[kPartGroups];

  template <typename... Books>
  DS4_DEVICE float add(const PartOfVector &, float acc, Books...) const {
    DS4_REGISTERS
    for (u32 g = 0; g < kPartGroups; ++g)
      acc = add_dots(groups[g], acc);
    return acc;
  }
};

/// The same of a decoder that has no dot4.
struct PartBlocks {
  PartOfRow row;

  template <typename... Books>
  DS4_DEVICE float add(const PartOfVector &x, float acc, Books... books) const {
    constexpr u32 kGroups = kBlockElements / 32;
    DS4_REGISTERS
    for (u32 b = 0; b < kPartBlocks; ++b) {
      u8 block[kBlockBytes];
      part_block(row, b, block);
      DS4_REGISTERS
      for (u32 g = 0; g < kGroups; ++g)
        acc = block_dot(block, g,
                        reinterpret_cast<const i8 *>(x.codes[b * kGroups + g]),
                        x.scales[b * kGroups + g], acc, books...);
    }
    return acc;
  }
};

template <typename Levels, typename... Books>
DS4_DEVICE auto part_dots(const DecodedPart<Levels> &row, const PartOfVector &x,
                          Books...) {
  PartDots<decltype(block_dots(row.groups[0], x.codes[0], 0.0f))> dots;
  DS4_REGISTERS
  for (u32 g = 0; g < kPartGroups; ++g) {
    dots.groups[g] = block_dots(row.groups[g], x.codes[g], x.scales[g]);
    finish(dots.groups[g].terms[0]);
  }
  return dots;
}

template <typename... Books>
DS4_DEVICE auto part_dots(const PartOfRow &row, const PartOfVector &x,
                          Books... books) {
  if constexpr (kHasDot4 && kHasBlockDot4<Books...>)
    return part_dots(decoded_part(row, books...), x);
  else
    return PartBlocks{row};
}

/// The products of rows and a vector, in every lane. The sum of a segment goes
/// from part to part: what is added to it is known before, so that every lane
/// takes every turn, with all rows.
template <u32 kRows, typename Dots, typename... Books>
DS4_DEVICE void row_products(const Dots (&dots)[kRows], const PartOfVector &x,
                             float (&sums)[kRows], Books... books) {
  DS4_REGISTERS
  for (u32 r = 0; r < kRows; ++r)
    sums[r] = 0.0f;
  DS4_REGISTERS
  for (u32 turn = 0; turn < 4; ++turn) {
    DS4_REGISTERS
    for (u32 r = 0; r < kRows; ++r) {
      sums[r] = dots[r].add(x, sums[r], books...);
      finish(sums[r]);
    }
    DS4_REGISTERS
    for (u32 r = 0; r < kRows; ++r)
      sums[r] = shfl(sums[r], turn * 8 + lane() % 8);
  }
  DS4_REGISTERS
  for (u32 r = 0; r < kRows; ++r)
    sums[r] = whole_product(segment_sum(sums[r]), books...);
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
    decltype(part_dots(decoded[0], x, books...)) dots[kRows];
    DS4_REGISTERS
    for (u32 r = 0; r < kRows; ++r)
      dots[r] = part_dots(decoded[r], x, books...);
    float sums[kRows];
    row_products(dots, x, sums, books...);
    float mine = sums[0];
    DS4_REGISTERS
    for (u32 r = 1; r < kRows; ++r)
      mine = lane() == r ? sums[r] : mine;
    if (lane() < kRows)
      columns.any_product(c)[first + lane()] = mine;
  }
}

template <u32 kRows>
DS4_DEVICE void load_rows(const u8 *from, PartOfRow (&rows)[kRows]) {
  DS4_REGISTERS
  for (u32 r = 0; r < kRows; ++r)
    load_row_part(from + r * kRowBytes, rows[r]);
}

/// Vectors of a group of columns go to LDS, when they are there.
template <typename Columns, typename... Books>
DS4_DEVICE void stage_group(const Columns &columns, u32 begin, Books... books) {
  wait_for_previous();
  if (begin != 0)
    barrier();
  stage_vectors(columns, begin, books...);
  barrier();
}

/// The rows of the wave in matrices that are multiplied with the same vectors,
/// and the matrices' books.
template <u32 kMatrices> struct RowsOfMatrices {
  const u8 *rows[kMatrices]; ///< the first one of the wave
  const u8 *books[kMatrices];
  float *y[kMatrices]; ///< of the products, as in Columns

  /// The batch behind batch i of matrix m; false if there is none.
  DS4_DEVICE bool load_next(u32 m, u32 i, PartOfRow (&batch)[kBatch]) const {
    if (i + 1 < kBatches)
      load_rows(rows[m] + (i + 1) * (kBatch * kRowBytes), batch);
    else if (m + 1 < kMatrices)
      load_rows(rows[m + 1], batch);
    else
      return false;
    return true;
  }
};

/// The wave's rows of matrix m, whose books, if any, are `books`, from `first`
/// on, times the vectors from `begin` on, of which a lone one is x. `batch`
/// are the first rows, then those of the next matrix.
template <u32 kMatrices, typename Columns, typename... Books>
DS4_DEVICE void rows_by_parts(const RowsOfMatrices<kMatrices> &all, u32 m,
                              const Columns &columns, const PartOfVector &x,
                              u32 begin, u32 first, PartOfRow (&batch)[kBatch],
                              Books... books) {
  float mine = 0.0f;
  // Straight code would be longer than what a multiprocessor keeps of it.
  DS4_UNROLL(1)
  for (u32 i = 0; i < kBatches; ++i) {
    if constexpr (kColumns == 1) {
      decltype(part_dots(batch[0], x, books...)) dots[kBatch];
      DS4_REGISTERS
      for (u32 b = 0; b < kBatch; ++b)
        dots[b] = part_dots(batch[b], x, books...);
      // The next rows take the registers of these.
      all.load_next(m, i, batch);
      float sums[kBatch];
      row_products(dots, x, sums, books...);
      DS4_REGISTERS
      for (u32 b = 0; b < kBatch; ++b)
        mine = lane() == i * kBatch + b ? sums[b] : mine;
    } else {
      PartOfRow next[kBatch];
      const bool more = all.load_next(m, i, next);
      column_products(batch, columns, begin, first + i * kBatch, books...);
      if (more) {
        DS4_REGISTERS
        for (u32 b = 0; b < kBatch; ++b)
          batch[b] = next[b];
      }
    }
  }
  if (kColumns == 1 && lane() < kLaneRows)
    columns.product(0)[first + lane()] = mine;
}

/// y[m][c][i] = matrices[m][i] . x[c] for first <= i < first + kLaneRows. All
/// waves of the block come here with the same vectors.
template <u32 kMatrices, typename Columns>
DS4_DEVICE void share_rows(const RowsOfMatrices<kMatrices> &all,
                           Columns columns, u32 first) {
  PartOfVector x;
  DS4_REGISTERS
  for (u32 begin = 0; begin < kColumns; begin += kStagedColumns) {
    if (begin >= columns.count)
      break;
    PartOfRow batch[kBatch];
    load_rows(all.rows[0], batch);
    if constexpr (kBookLevels != 0)
      stage_group(columns, begin, all.books[0]);
    else
      stage_group(columns, begin);
    if constexpr (kColumns == 1)
      load_vector_part(staged_vector(0), x);
    DS4_REGISTERS
    for (u32 m = 0; m < kMatrices; ++m) {
      columns.y = all.y[m];
      if constexpr (kBookLevels != 0)
        rows_by_parts(all, m, columns, x, begin, first, batch, all.books[m]);
      else
        rows_by_parts(all, m, columns, x, begin, first, batch);
    }
  }
}
