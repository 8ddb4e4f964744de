// sums.h - the two declared orders of sums (ir/Ds4Dialect.td), where the terms
// are plain f32 values: squares of a vector by one wave, bounds of segments.
// Dot products with a stored weight are in dot.h.
#ifndef DS4_OPS_SUMS_H
#define DS4_OPS_SUMS_H

/// Sum of x_i^2, i < n, in strided order: the calling lane's share; the sum is
/// the wave's sum of the shares. A lane keeps the partial sums lane, lane + 32,
/// ..., lane + 224.
DS4_DEVICE float squares_share(const float *x, u32 n) {
  float p[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  DS4_PREFETCH(4)
  for (u32 first = lane(); first < n; first += 256)
    for (u32 j = 0; j < 8; ++j) {
      const u32 i = first + kWave * j;
      if (i < n)
        p[j] = fma_f32(x[i], x[i], p[j]);
    }
  return tree8(p);
}

/// 1 / sqrt(sum / n + eps).
DS4_DEVICE float inverse_rms(float sum, u32 n, float eps) {
  return div_f32(1.0f, sqrt_f32(div_f32(sum, static_cast<float>(n)) + eps));
}

/// First term of segment s of n terms, s <= 8.
DS4_DEVICE constexpr u32 segment_begin(u32 n, u32 s) { return s * n / 8; }

/// Adds the terms a_i b_i of the segments first, ..., first + count - 1 of n
/// terms to p[first ...]. a and b point to the first term of segment `first`.
/// The chains advance together, so that their latencies overlap.
DS4_DEVICE void add_segments(const float *a, const float *b, u32 n, u32 first,
                             u32 count, float (&p)[8]) {
  const u32 base = segment_begin(n, first), longest = (n + 7) / 8;
  DS4_PREFETCH(4)
  for (u32 i = 0; i < longest; ++i)
#pragma unroll
    for (u32 j = 0; j < count; ++j) {
      const u32 begin = segment_begin(n, first + j);
      if (i < segment_begin(n, first + j + 1) - begin)
        p[first + j] =
            fma_f32(a[begin - base + i], b[begin - base + i], p[first + j]);
    }
}

#endif // DS4_OPS_SUMS_H
