// hc_pre_ref.cpp - oracle of ds4.hc_pre.
#include "ops/Reference.h"
#include "ops/prelude.h"

#include <cassert>

namespace ds4::ref {

namespace {

/// A_jk /= sum over k (rows) or j (columns), plus eps; ascending sums.
void normaliseRows(std::span<float> a, uint64_t m, float eps) {
  for (uint64_t j = 0; j < m; ++j) {
    float sum = a[j * m];
    for (uint64_t k = 1; k < m; ++k)
      sum += a[j * m + k];
    for (uint64_t k = 0; k < m; ++k)
      a[j * m + k] = a[j * m + k] / (sum + eps);
  }
}
void normaliseColumns(std::span<float> a, uint64_t m, float eps) {
  for (uint64_t k = 0; k < m; ++k) {
    float sum = a[k];
    for (uint64_t j = 1; j < m; ++j)
      sum += a[j * m + k];
    for (uint64_t j = 0; j < m; ++j)
      a[j * m + k] = a[j * m + k] / (sum + eps);
  }
}

void softmaxRows(std::span<float> a, uint64_t m, float eps) {
  for (uint64_t j = 0; j < m; ++j) {
    const std::span<float> row = a.subspan(j * m, m);
    float top = row[0];
    for (float x : row)
      top = x > top ? x : top;
    for (float &x : row)
      x = exp_f32(x - top);
    float sum = row[0];
    for (uint64_t k = 1; k < m; ++k)
      sum += row[k];
    for (float &x : row)
      x = x / sum + eps;
  }
}

} // namespace

void mixStreams(Floats streams, Floats weights, std::span<float> result) {
  const uint64_t hidden = result.size();
  for (uint64_t e = 0; e < hidden; ++e) {
    float sum = weights[0] * streams[e];
    for (uint64_t i = 1; i < weights.size(); ++i)
      sum = fma_f32(weights[i], streams[i * hidden + e], sum);
    result[e] = sum;
  }
}

void hcPre(const HcPreParams &params, Floats streams, const Weight &fn,
           Floats scale, Floats base, std::span<float> x, std::span<float> post,
           std::span<float> comb) {
  const uint64_t m = params.streams, hidden = params.hidden;
  const uint64_t flat = m * hidden, mixes = (2 + m) * m;
  const uint64_t tokens = streams.size() / flat;
  assert(fn.rows() == mixes && fn.columns == flat &&
         x.size() == tokens * hidden);

  std::vector<std::vector<float>> fnRows;
  for (uint64_t j = 0; j < mixes; ++j)
    fnRows.push_back(weightRow(fn, j));

  for (uint64_t t = 0; t < tokens; ++t) {
    const Floats f = streams.subspan(t * flat, flat);
    const float mean = stridedDot(f, f) / static_cast<float>(flat);
    const float r = 1.0f / sqrt_f32(mean + params.eps);
    std::vector<float> mix;
    for (uint64_t j = 0; j < mixes; ++j)
      mix.push_back(stridedDot(fnRows[j], f) * r);

    std::vector<float> pre(m);
    for (uint64_t i = 0; i < m; ++i) {
      pre[i] = sigmoid_f32(fma_f32(mix[i], scale[0], base[i])) + params.hcEps;
      post[t * m + i] =
          2.0f * sigmoid_f32(fma_f32(mix[m + i], scale[1], base[m + i]));
    }
    const std::span<float> a = comb.subspan(t * m * m, m * m);
    for (uint64_t jk = 0; jk < m * m; ++jk)
      a[jk] = fma_f32(mix[2 * m + jk], scale[2], base[2 * m + jk]);
    softmaxRows(a, m, params.hcEps);
    normaliseColumns(a, m, params.hcEps);
    for (uint64_t n = 1; n < params.iterations; ++n) {
      normaliseRows(a, m, params.hcEps);
      normaliseColumns(a, m, params.hcEps);
    }

    mixStreams(f, pre, x.subspan(t * hidden, hidden));
  }
}

} // namespace ds4::ref
