// linear_strided.hip - linear and grouped_linear of f32 for many rows of
// activations, by tiles: a block does kTileRows rows of a group for kColumns
// rows of x. Strided order: term i goes to partial sum i mod 256.
//
//   y[t, g, n] = W[g, n] . x[t, g]
//
// A lane has kLaneRows x 8 products. It does the partial sums 8 c + lane() % 8
// + 32 j, one after another: j is in the tree of eight, c = 0, ..., 3. Eight
// lanes add theirs by lane xor 1, 2, 4; what lane xor 8 and 16 would add has
// other c. Of each partial sum kStage terms are in LDS at a time, decoded once
// for the block; the next ones are on their way to registers meanwhile, and
// from there to the other of two buffers.
//
// | constant | |
// |---|---|
// | kIn, kOut | columns, a multiple of 256; rows of a group |
// | kRowBytes, kBookLevels | see products.h |
// | kGroups | 1 for linear |
// | kColumns | rows of x that a block does; `row` counts groups of so many |
// | kLaneRows | 4 or 8 |
// | kStage | divides kIn / 256 |
// | kKeepShared | see kept_sums.h |
// | kSharedBytes | what the launch reserves |

#include "kept_sums.h"

constexpr u32 kLaneColumns = 8;
constexpr u32 kSums = kLaneRows * kLaneColumns;
constexpr u32 kWaveRows = kThreads / 2 / kColumns; ///< waves beside each other
constexpr u32 kTileRows = 2 * kLaneRows * kWaveRows;
constexpr u32 kStages = kIn / 256 / kStage; ///< of a partial sum
static_assert(kIn % (256 * kStage) == 0);
static_assert(kThreads % (2 * kColumns) == 0 &&
              kThreads / kWave * 16 == kColumns * kWaveRows);

/// kStage terms of eight neighbouring partial sums. The padding keeps lanes in
/// different banks.
struct StridedStage {
  float x[kStage][kColumns][8];
  float weights[kStage][8][kTileRows + 4];
};
struct StridedMemory {
  StridedStage stages[2];
  KeptMemory<kSums> kept;
};
static_assert(sizeof(StridedMemory) <= kSharedBytes);

/// The calling thread's share of a stage, on its way from memory to LDS: four
/// terms of a vector at a time, and a weight.
class StridedLoader {
public:
  /// `vectors` and `rows` from the block's first on; those that are not there
  /// are copies of the last one.
  DS4_DEVICE StridedLoader(const float *vectors, u32 count, const u8 *rows,
                           u32 row_count, const float *books)
      : vector(vectors +
               static_cast<u64>(own(own_vector(), count)) * kGroups * kIn),
        row(rows + static_cast<u64>(own(own_row(), row_count)) * kRowBytes),
        books(books) {}

  /// From term `term` on of the partial sums 32 j + 8 c, ..., 32 j + 8 c + 7.
  DS4_DEVICE void load(u32 c, u32 j, u32 term) {
    DS4_REGISTERS
    for (u32 i = 0; i < kVectors; ++i)
      if (is_there(i, kAllVectors))
        load_floats(vector + 256 * (term + vector_term(i)) + 32 * j + 8 * c +
                        thread_x() % 2 * 4,
                    x[i]);
    DS4_REGISTERS
    for (u32 i = 0; i < kWeights; ++i)
      if (is_there(i, kAllWeights))
        weights[i] = weight_at(row,
                               32 * (8 * (term + weight_term(i)) + j) +
                                   (8 * c + thread_x() % 8) % 32,
                               books);
  }

  DS4_DEVICE void store(StridedStage &stage) const {
    DS4_REGISTERS
    for (u32 i = 0; i < kVectors; ++i)
      if (is_there(i, kAllVectors))
        store_floats(stage.x[vector_term(i)][own_vector()] + thread_x() % 2 * 4,
                     x[i]);
    DS4_REGISTERS
    for (u32 i = 0; i < kWeights; ++i)
      if (is_there(i, kAllWeights))
        stage.weights[weight_term(i)][thread_x() % 8][own_row()] = weights[i];
  }

private:
  /// Of a stage, of a term, and how many of them a thread moves.
  static constexpr u32 kTermVectors = kColumns * 2;
  static constexpr u32 kTermWeights = 8 * kTileRows;
  static constexpr u32 kAllVectors = kStage * kTermVectors;
  static constexpr u32 kAllWeights = kStage * kTermWeights;
  static constexpr u32 kVectors = (kAllVectors + kThreads - 1) / kThreads;
  static constexpr u32 kWeights = (kAllWeights + kThreads - 1) / kThreads;
  static_assert(kThreads % kTermVectors == 0 && kThreads % kTermWeights == 0);

  DS4_DEVICE static u32 own(u32 i, u32 count) {
    return i < count ? i : count - 1;
  }
  DS4_DEVICE static u32 own_vector() { return thread_x() / 2 % kColumns; }
  DS4_DEVICE static u32 own_row() { return thread_x() / 8 % kTileRows; }
  DS4_DEVICE static u32 vector_term(u32 i) {
    return thread_x() / kTermVectors + i * (kThreads / kTermVectors);
  }
  DS4_DEVICE static u32 weight_term(u32 i) {
    return thread_x() / kTermWeights + i * (kThreads / kTermWeights);
  }
  /// A branch would keep what follows from overlapping what is before.
  DS4_DEVICE static bool is_there(u32 i, u32 all) {
    return all % kThreads == 0 || i * kThreads + thread_x() < all;
  }

  const float *vector;
  const u8 *row;
  const float *books;
  float x[kVectors][4];
  float weights[kWeights];
};

/// Where the calling lane's products are in the tile: rows from first_row() on,
/// every other vector. A wave has two such groups of rows and two of vectors.
DS4_DEVICE u32 first_row() {
  return (wave() % kWaveRows * 2 + lane() / 8 % 2) * kLaneRows;
}
DS4_DEVICE u32 tile_vector(u32 i) {
  return wave() / kWaveRows * 16 + 2 * i + lane() / 16;
}

/// sums += the terms of a stage.
DS4_DEVICE void add_terms(const StridedStage &stage, float (&sums)[kSums]) {
  // More terms at once would only take registers.
  DS4_PREFETCH(4)
  for (u32 t = 0; t < kStage; ++t) {
    float weights[kLaneRows], x[kLaneColumns];
    load_floats(stage.weights[t][lane() % 8] + first_row(), weights);
#pragma unroll
    for (u32 i = 0; i < kLaneColumns; ++i)
      x[i] = stage.x[t][tile_vector(i)][lane() % 8];
#pragma unroll
    for (u32 r = 0; r < kLaneRows; ++r)
#pragma unroll
      for (u32 i = 0; i < kLaneColumns; ++i) {
        float &sum = sums[r * kLaneColumns + i];
        sum = fma_f32(weights[r], x[i], sum);
      }
  }
}

DS4_DEVICE void run(u32 block, u32 row, const u8 *__restrict__ x,
                    const u8 *__restrict__ weight, const u8 *__restrict__ books,
                    float *__restrict__ result, const Step *step) {
  DS4_BLOCK_MEMORY(bytes, kSharedBytes);
  const u32 rows = row_count(kRatio, step), begin = row * kColumns;
  if (begin >= rows)
    return;
  constexpr u32 kTiles = (kOut + kTileRows - 1) / kTileRows;
  const u32 group = block / kTiles, first = block % kTiles * kTileRows;
  const u32 count = rows - begin < kColumns ? rows - begin : kColumns;
  const float *const vectors =
      reinterpret_cast<const float *>(x) +
      (static_cast<u64>(begin) * kGroups + group) * kIn;
  const u8 *const matrix =
      weight + (static_cast<u64>(group) * kOut + first) * kRowBytes;
  const float *const levels = reinterpret_cast<const float *>(books);

  StridedMemory &memory = *reinterpret_cast<StridedMemory *>(bytes);
  StridedLoader loader(vectors, count, matrix, kOut - first, levels);
  float sums[kSums], one[kSums];
  KeptSums<kSums> two(memory.kept, 0), four(memory.kept, 1);
  float pair[kLaneRows] = {},
        low[kLaneRows] = {}; // what lane xor 8 and 16 would add
  loader.load(0, 0, 0);
  loader.store(memory.stages[0]);
  barrier();
  u32 buffer = 0;
#pragma unroll 1
  for (u32 c = 0; c < 4; ++c) {
#pragma unroll 1
    for (u32 j = 0; j < 8; ++j) {
#pragma unroll
      for (u32 i = 0; i < kSums; ++i)
        sums[i] = 0.0f;
#pragma unroll 1
      for (u32 s = 0; s < kStages; ++s) {
        // Behind the last stage it is loaded once more: no branch keeps the
        // loads from the products.
        u32 next_s = s + 1, next_j = j, next_c = c;
        if (next_s == kStages) {
          next_s = 0;
          if (++next_j == 8) {
            next_j = 0;
            next_c = c < 3 ? c + 1 : c;
          }
        }
        loader.load(next_c, next_j, next_s * kStage);
        add_terms(memory.stages[buffer], sums);
        buffer ^= 1;
        loader.store(memory.stages[buffer]);
        barrier();
      }
      add_partial(j, sums, one, two, four);
    }
    // Lane l of eight gets the sums of vector l.
#pragma unroll
    for (u32 r = 0; r < kLaneRows; ++r) {
      float of_lanes[kLaneColumns];
      __builtin_memcpy(of_lanes, sums + r * kLaneColumns, sizeof of_lanes);
      const float sum = segment_sums(of_lanes);
      pair[r] = c % 2 == 0 ? sum : pair[r] + sum;
      if (c == 1)
        low[r] = pair[r];
    }
  }
  const u32 vector = tile_vector(lane() % 8);
  if (vector >= count)
    return;
  float *to = result +
              ((static_cast<u64>(begin) + vector) * kGroups + group) * kOut +
              first;
#pragma unroll
  for (u32 r = 0; r < kLaneRows; ++r)
    if (first + first_row() + r < kOut)
      to[first_row() + r] = low[r] + pair[r];
}
