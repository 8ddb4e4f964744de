// spread_rows.h - f32 products of rows by the eight waves of a block: wave j
// does the partial sums 32 j, ..., 32 j + 31 of the strided order
// (ir/Ds4Dialect.td), a lane one; the eight of a lane meet in LDS. The weights
// are decoded before the block waits for the launches before its own.
//
// | constant | |
// |---|---|
// | kIn | columns, a multiple of 256 |
// | kRowBytes | from one row to the next |
// | kLaneRows | rows of a block |
// | kColumns | vectors, at most 8 |

/// Terms of a partial sum, and how many of them are on their way together.
constexpr u32 kTerms = kIn / 256;
constexpr u32 kTermBatch = kTerms % 16 == 0 && kTerms ? 16 : kTerms % 8 ? 1 : 8;

/// The calling lane's weights of the terms from `first` on.
template <typename Row, u32 kCount>
DS4_DEVICE void load_terms(Row row, u32 first, const float *levels,
                           float (&weights)[kCount]) {
  const u32 begin = 256 * first + 32 * wave() + lane();
  if constexpr (kShufflesAreCheap && kHasPlainScales<u32>) {
    // Lane m decodes the scale of term m.
    const float scale =
        plain_scale(row, (256 * (first + lane() % kCount) + 32 * wave()) / 32);
    DS4_REGISTERS
    for (u32 m = 0; m < kCount; ++m)
      weights[m] = plain_level(row, begin + 256 * m) * shfl(scale, m);
  } else {
    DS4_REGISTERS
    for (u32 m = 0; m < kCount; ++m)
      weights[m] = weight_at(row, begin + 256 * m, levels);
  }
}

/// y[c][i] = matrix[i] . x[c] for first <= i < first + kLaneRows, by all
/// threads of the block.
template <typename Columns>
DS4_DEVICE void spread_rows(const u8 *matrix, const Columns &columns,
                            const float *levels, u32 first) {
  static_assert(kIn % 256 == 0 && kThreads == 8 * kWave);
  DS4_BLOCK_MEMORY(memory, kLaneRows * kColumns * 1024);
  float sums[kLaneRows][kColumns] = {};
  DS4_UNROLL(1)
  for (u32 begin = 0; begin < kTerms; begin += kTermBatch) {
    float weights[kLaneRows][kTermBatch];
    DS4_REGISTERS
    for (u32 r = 0; r < kLaneRows; ++r)
      load_terms(matrix + static_cast<u64>(first + r) * kRowBytes, begin,
                 levels, weights[r]);
    if (begin == 0)
      wait_for_previous();
    const u32 at = 256 * begin + 32 * wave() + lane();
    DS4_REGISTERS
    for (u32 c = 0; c < kColumns; ++c) {
      const float *x = columns.values(c) + at;
      DS4_REGISTERS
      for (u32 m = 0; m < kTermBatch; ++m) {
        const float value = c < columns.count ? x[256 * m] : 0.0f;
        DS4_REGISTERS
        for (u32 r = 0; r < kLaneRows; ++r)
          sums[r][c] = fma_f32(weights[r][m], value, sums[r][c]);
      }
    }
  }
  // Of column c and row r at [c * kLaneRows + r][wave][lane].
  float *parts = reinterpret_cast<float *>(memory);
  DS4_REGISTERS
  for (u32 c = 0; c < kColumns; ++c)
    DS4_REGISTERS
  for (u32 r = 0; r < kLaneRows; ++r)
    parts[(c * kLaneRows + r) * 256 + thread_x()] = sums[r][c];
  barrier();
  for (u32 i = wave(); i < kLaneRows * columns.count; i += kThreads / kWave) {
    float p[8];
    DS4_REGISTERS
    for (u32 j = 0; j < 8; ++j)
      p[j] = parts[i * 256 + 32 * j + lane()];
    const float sum = wave_sum(tree8(p));
    if (lane() == 0)
      columns.any_product(i / kLaneRows)[first + i % kLaneRows] = sum;
  }
}
