// products.h - matrix times vector by waves, shared by linear and the experts:
// a wave, or a block, does kWaveRows consecutive rows of a matrix. Constants
// that codegen prints: kIn (columns), kRowBytes (from one row to the next),
// kInt8 (the vector is int8 codes and scales), kRowLanes (lanes that share a
// row: of int8 8, or 32 for layout lanes, where a block's waves have the same
// vectors; of f32 32, or 256, a block), kBookLevels (levels of a learned book;
// 0: the format has none), kLaneRows (rows that a lane does), kColumns (vectors
// that share what is decoded of the matrix, at most 8), kThreads. The decoder
// and the layout of the weight (layouts/) have been included before.
#include "dot.h"
#include "operands.h"
#include "spread_rows.h"

/// With kLaneRows = 8 the sums of 8 rows cross the lanes together; 1 spreads a
/// matrix over more waves; 4 rows of f32 share what is read of the columns.
static_assert(kLaneRows == 8 || kLaneRows == 1 || kRowLanes >= 32);
constexpr u32 kWaveRows = kInt8 ? 32 / kRowLanes * kLaneRows : kLaneRows;

/// The number of the wave, or block, in its row of the grid.
DS4_DEVICE u32 grid_wave(u32 block) {
  return kRowLanes > kWave ? block : block * (kThreads / kWave) + wave();
}

/// Vectors that a wave multiplies with the same rows, by number, and the
/// numbers of their products; those from `count` on are not there.
struct Columns {
  const u8 *x; ///< vectors of kVectorBytes
  float *y;    ///< products of kOut values
  u32 from[kColumns], to[kColumns];
  u32 count;

  DS4_DEVICE const u8 *vector(u32 c) const {
    return x + static_cast<u64>(from[c]) * kVectorBytes;
  }
  DS4_DEVICE const float *values(u32 c) const {
    return reinterpret_cast<const float *>(vector(c));
  }
  DS4_DEVICE float *product(u32 c) const {
    return y + static_cast<u64>(to[c]) * kOut;
  }
  /// product(c), where c is no constant: an array that is indexed would be in
  /// memory.
  DS4_DEVICE float *any_product(u32 c) const {
    u32 number = to[0];
    DS4_REGISTERS
    for (u32 other = 1; other < kColumns; ++other)
      number = c == other ? to[other] : number;
    return y + static_cast<u64>(number) * kOut;
  }
};

/// segment_shares of a row of an expert whose books are `books`.
template <u32 kCount>
DS4_DEVICE void int8_shares(const u8 *row, const i8 *const (&codes)[kCount],
                            const float *const (&scales)[kCount], u32 count,
                            const u8 *books, float (&shares)[8]) {
  if constexpr (kBookLevels != 0)
    segment_shares(row, codes, scales, count, shares, books);
  else
    segment_shares(row, codes, scales, count, shares);
}

/// A product from the sum of such shares.
DS4_DEVICE float int8_product(float sum, const u8 *books) {
  if constexpr (kBookLevels != 0)
    return whole_product(sum, books);
  else
    return sum;
}

/// Copies a row to the wave's part of LDS, by loads of 16 bytes that are all on
/// their way together; ends with a barrier. A template, since kRowBytes may be
/// too many.
template <u32 kBytes> DS4_DEVICE const u8 *staged_row(const u8 *row) {
  u8 *mine = shared_bytes<kThreads / kWave * kBytes>() + wave() * kBytes;
  constexpr u32 kLoads = (kBytes + 16 * kWave - 1) / (16 * kWave);
  u8 bytes[kLoads][16];
  DS4_REGISTERS
  for (u32 i = 0; i < kLoads; ++i)
    if (const u32 at = 16 * (i * kWave + lane()); at < kBytes)
      load_aligned<16>(bytes[i], row + at);
  wait_for_previous();
  DS4_REGISTERS
  for (u32 i = 0; i < kLoads; ++i)
    if (const u32 at = 16 * (i * kWave + lane()); at < kBytes)
      store_aligned<16>(mine + at, bytes[i]);
  barrier();
  return mine;
}

/// One column, one row a lane.
DS4_DEVICE void lane_product(const u8 *matrix, u32 rows, const u8 *x,
                             const u8 *books, u32 first, float *y) {
  if constexpr (kInt8 != 0) {
    const i8 *const codes[1] = {reinterpret_cast<const i8 *>(x)};
    const float *const scales[1] = {reinterpret_cast<const float *>(x + kIn)};
    const u32 i = first + lane() / 8;
    float share[8] = {};
    if (i < rows)
      int8_shares(matrix + static_cast<u64>(i) * kRowBytes, codes, scales, 1,
                  books, share);
    const float sum = int8_product(segment_sum(share[0]), books);
    if (i < rows && lane() % 8 == 0)
      y[i] = sum;
  } else {
    const u8 *row = matrix + static_cast<u64>(first) * kRowBytes;
    if constexpr (kStaged != 0)
      row = staged_row<kStaged ? kRowBytes : 16>(row);
    const float sum = wave_sum(
        first < rows // the same for the whole wave
            ? row_share_f32(row, reinterpret_cast<const float *>(x), kIn,
                            reinterpret_cast<const float *>(books))
            : 0.0f);
    if (first < rows && lane() == 0)
      y[first] = sum;
  }
}

/// One column: the sums of 8 rows cross the lanes together.
DS4_DEVICE void wave_product(const u8 *matrix, u32 rows, const u8 *x,
                             const u8 *books, u32 first, float *y) {
  float shares[8] = {};
  if constexpr (kInt8 != 0) {
    const i8 *const codes[1] = {reinterpret_cast<const i8 *>(x)};
    const float *const scales[1] = {reinterpret_cast<const float *>(x + kIn)};
    for (u32 r = 0; r < 8; ++r) {
      const u32 i = first + lane() / 8 * 8 + r;
      float share[8] = {};
      if (i < rows)
        int8_shares(matrix + static_cast<u64>(i) * kRowBytes, codes, scales, 1,
                    books, share);
      shares[r] = share[0];
    }
    const float sum = int8_product(segment_sums(shares), books);
    if (first + lane() < rows)
      y[first + lane()] = sum;
  } else {
    const float *values = reinterpret_cast<const float *>(x);
    const float *levels = reinterpret_cast<const float *>(books);
    for (u32 r = 0; r < 8; ++r) {
      const u32 i = first + r;
      const u8 *row = matrix + static_cast<u64>(i) * kRowBytes;
      shares[r] = i < rows ? row_share_f32(row, values, kIn, levels) : 0.0f;
    }
    const float sum = wave_sums(shares);
    if (lane() < 8 && first + lane() < rows)
      y[first + lane()] = sum;
  }
}

/// Several columns: the sums of a row for all of them cross the lanes together.
DS4_DEVICE void wave_columns(const u8 *matrix, u32 rows, const Columns &columns,
                             const u8 *books, u32 first) {
  const i8 *codes[kColumns];
  const float *scales[kColumns], *values[kColumns];
  DS4_REGISTERS
  for (u32 c = 0; c < kColumns; ++c) {
    codes[c] = reinterpret_cast<const i8 *>(columns.vector(c));
    scales[c] = reinterpret_cast<const float *>(columns.vector(c) + kIn);
    values[c] = columns.values(c);
  }
  for (u32 r = 0; r < kLaneRows; ++r) {
    const u32 i = first + (kInt8 ? lane() / 8 * kLaneRows : 0) + r;
    const u8 *row = matrix + static_cast<u64>(i) * kRowBytes;
    float shares[8] = {};
    float sum;
    if constexpr (kInt8 != 0) {
      if (i < rows)
        int8_shares(row, codes, scales, columns.count, books, shares);
      sum = int8_product(segment_sums(shares), books);
    } else {
      if (i < rows)
        row_shares_f32(row, values, columns.count, kIn,
                       reinterpret_cast<const float *>(books), shares);
      sum = wave_sums(shares);
    }
    // Lane l of a group has column l % 8.
    const bool own = kInt8 || lane() < 8;
#pragma unroll
    for (u32 c = 0; c < kColumns; ++c)
      if (own && i < rows && lane() % 8 == c && c < columns.count)
        columns.product(c)[i] = sum;
  }
}

/// f32, several rows and columns. The partial sums lane, lane + 32, ... are
/// finished one after another, as a lane has no room for all of each product;
/// at most three wait for their neighbours in the tree of eight.
DS4_DEVICE void wave_square(const u8 *matrix, u32 rows, const Columns &columns,
                            const u8 *books, u32 first) {
  typedef float Sums[kLaneRows][kColumns];
  const float *levels = reinterpret_cast<const float *>(books);
  const u8 *row[kLaneRows];
#pragma unroll
  for (u32 r = 0; r < kLaneRows; ++r)
    row[r] =
        matrix +
        static_cast<u64>(first + r < rows ? first + r : rows - 1) * kRowBytes;
  Sums one, two, four;
  float shares[kLaneRows][8] = {};
#pragma unroll
  for (u32 j = 0; j < 8; ++j) {
    Sums sums = {};
    DS4_PREFETCH(2)
    for (u32 i = lane() + kWave * j; i < kIn; i += 8 * kWave) {
      float weights[kLaneRows];
#pragma unroll
      for (u32 r = 0; r < kLaneRows; ++r)
        weights[r] = weight_at(row[r], i, levels);
#pragma unroll
      for (u32 c = 0; c < kColumns; ++c) {
        const float x = columns.values(c)[i];
#pragma unroll
        for (u32 r = 0; r < kLaneRows; ++r)
          sums[r][c] = fma_f32(weights[r], x, sums[r][c]);
      }
    }
#pragma unroll
    for (u32 r = 0; r < kLaneRows; ++r)
#pragma unroll
      for (u32 c = 0; c < kColumns; ++c) {
        if (j % 2 == 0) {
          one[r][c] = sums[r][c];
          continue;
        }
        const float pair = one[r][c] + sums[r][c];
        if (j % 4 == 1) {
          two[r][c] = pair;
          continue;
        }
        const float quad = two[r][c] + pair;
        if (j == 3)
          four[r][c] = quad;
        else
          shares[r][c] = four[r][c] + quad;
      }
    // Or what is loaded for the next sums would be kept, too.
#pragma unroll
    for (u32 r = 0; r < kLaneRows; ++r)
#pragma unroll
      for (u32 c = 0; c < kColumns; ++c)
        finish(j % 2 == 0   ? one[r][c]
               : j % 4 == 1 ? two[r][c]
               : j == 3     ? four[r][c]
                            : shares[r][c]);
  }
#pragma unroll
  for (u32 r = 0; r < kLaneRows; ++r) {
    const float sum = wave_sums(shares[r]); // lane l has column l % 8
#pragma unroll
    for (u32 c = 0; c < kColumns; ++c)
      if (lane() == c && c < columns.count && first + r < rows)
        columns.product(c)[first + r] = sum;
  }
}

/// y[c][i] = matrix[i] . x[c] for first <= i < first + kWaveRows, i < rows, by
/// one whole wave or, if kRowLanes says so, block. `books` are the expert's. A
/// template, since not every layout has share_rows.
template <typename SomeColumns>
DS4_DEVICE void wave_products(const u8 *matrix, u32 rows,
                              const SomeColumns &columns, const u8 *books,
                              u32 first) {
  if constexpr (kInt8 != 0 && kRowLanes == 32)
    share_rows(RowsOfMatrices<1>{{matrix + static_cast<u64>(first) * kRowBytes},
                                 {books},
                                 {columns.y}},
               columns, first);
  else if constexpr (kRowLanes == 256)
    spread_rows(matrix, columns, reinterpret_cast<const float *>(books), first);
  else if constexpr (kColumns == 1 && kLaneRows == 1)
    lane_product(matrix, rows, columns.vector(0), books, first,
                 columns.product(0));
  else if constexpr (kColumns == 1)
    wave_product(matrix, rows, columns.vector(0), books, first,
                 columns.product(0));
  else if constexpr (kLaneRows == 4)
    wave_square(matrix, rows, columns, books, first);
  else
    wave_columns(matrix, rows, columns, books, first);
}

/// The same of two matrices and the same vectors, y and `other_y`.
template <typename SomeColumns>
DS4_DEVICE void wave_products(const u8 *matrix, const u8 *other, u32 rows,
                              SomeColumns columns, const u8 *books,
                              const u8 *other_books, float *other_y,
                              u32 first) {
  if constexpr (kInt8 != 0 && kRowLanes == 32) {
    const u64 at = static_cast<u64>(first) * kRowBytes;
    share_rows(RowsOfMatrices<2>{{matrix + at, other + at},
                                 {books, other_books},
                                 {columns.y, other_y}},
               columns, first);
  } else {
    wave_products(matrix, rows, columns, books, first);
    columns.y = other_y;
    wave_products(other, rows, columns, other_books, first);
  }
}
