// MixEncoder.cpp - choice of book, scale and codes as the published reference;
// the fit of books is our own.
#include "quant/MixEncoder.h"

#include "ops/CodeLayout.h"
#include "ops/prelude.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

namespace ds4::quant {

static constexpr unsigned kHalf = 16;
/// Halves whose rms is below this part of their greatest value feed book 0.
static constexpr float kPeaked = 0.52f;

namespace {

/// The choice for a half.
struct HalfCode {
  unsigned book = 0, scale = 0;
  std::array<uint8_t, kHalf> codes{};
};

/// Two books and the midpoints between their levels.
class BookPair {
public:
  explicit BookPair(Floats books) : levels(books.size() / 2), books(books) {
    for (unsigned b = 0; b < 2; ++b) {
      for (size_t k = 0; k + 1 < levels; ++k)
        midpoints[b][k] = 0.5f * (level(b, k) + level(b, k + 1));
      greatest[b] =
          std::max(std::fabs(level(b, 0)), std::fabs(level(b, levels - 1)));
    }
  }

  float level(unsigned book, size_t code) const {
    return books[book * levels + code];
  }

  /// The nearest level, ties to the lower.
  uint8_t nearest(unsigned book, float value) const {
    unsigned code = 0;
    for (size_t k = 0; k + 1 < levels; ++k)
      code += value > midpoints[book][k];
    return static_cast<uint8_t>(code);
  }

  /// False if every error overflows.
  bool encode(const float *x, const float *w, HalfCode &best) const {
    float top = 0;
    for (unsigned i = 0; i < kHalf; ++i)
      top = std::max(top, std::fabs(x[i]));
    best = {};
    if (top == 0) {
      best.codes.fill(nearest(0, 0.0f));
      return true;
    }
    float least = std::numeric_limits<float>::infinity();
    for (unsigned b = 0; b < 2; ++b) {
      if (greatest[b] == 0)
        continue;
      const int centre = nearestUe4m3(top / greatest[b]);
      for (int byte = std::max(centre - 2, 1);
           byte <= std::min(centre + 2, 126); ++byte) {
        const float scale = ue4m3(static_cast<uint8_t>(byte));
        HalfCode candidate{b, static_cast<unsigned>(byte), {}};
        float error = 0;
        for (unsigned i = 0; i < kHalf; ++i) {
          candidate.codes[i] = nearest(b, x[i] / scale);
          const float d = x[i] - scale * level(b, candidate.codes[i]);
          error += w ? w[i] * d * d : d * d;
        }
        if (error < least) {
          least = error;
          best = candidate;
        }
      }
    }
    return least < std::numeric_limits<float>::infinity();
  }

private:
  size_t levels;
  Floats books;
  std::array<std::array<float, 8>, 2> midpoints{};
  std::array<float, 2> greatest{};
};

} // namespace

bool encodeMixRow(WeightFormat format, Floats books, Floats row,
                  Floats importance, uint8_t *out) {
  const WeightFormatInfo &info = weightFormatInfo(format);
  const ref::CodeLayout &layout = ref::codeLayout(format);
  assert(info.bookLevels && books.size() == 2 * info.bookLevels);
  for (const float x : row)
    if (!std::isfinite(x))
      return false;
  for (const float w : importance)
    if (!std::isfinite(w) || w < 0)
      return false;
  const BookPair pair(books);
  std::vector<uint8_t> bytes(weightRowBytes(format, row.size()));
  for (size_t half = 0; half < row.size() / kHalf; ++half) {
    HalfCode code;
    if (!pair.encode(row.data() + half * kHalf,
                     importance.empty() ? nullptr
                                        : importance.data() + half * kHalf,
                     code))
      return false;
    uint8_t *block = bytes.data() + half / 2 * info.blockBytes;
    block[info.scaleOffset + half % 2] =
        static_cast<uint8_t>(code.scale | code.book << 7);
    for (unsigned i = 0; i < kHalf; ++i)
      layout.put(block, static_cast<uint32_t>(half % 2) * kHalf + i,
                 code.codes[i]);
  }
  std::memcpy(out, bytes.data(), bytes.size());
  return true;
}

/// Rounds levels to bf16 and makes them strictly ascending.
static void roundBook(std::span<float> book) {
  std::sort(book.begin(), book.end());
  for (size_t k = 0; k < book.size(); ++k) {
    book[k] = f32_from_bf16(bf16_from_f32(book[k])) + 0.0f;
    while (k > 0 && book[k] <= book[k - 1])
      book[k] = f32_from_bf16(
          bf16_from_f32(book[k] + std::max(std::fabs(book[k]), 1e-3f) / 128));
  }
}

namespace {

/// Weighted values in [-1, 1] in bins.
class Histogram {
public:
  void add(float value, double weight) {
    const auto bin = static_cast<size_t>(
        std::clamp((value + 1) * (kBins - 1) / 2 + 0.5f, 0.0f, kBins - 1.0f));
    weights[bin] += weight;
    sums[bin] += weight * value;
  }

  /// Lloyd's iterations from quantile starts.
  void fit(std::span<float> book) const {
    double total = 0;
    for (const double w : weights)
      total += w;
    const size_t levels = book.size();
    for (size_t k = 0; k < levels; ++k)
      book[k] = -1.0f + 2.0f * (static_cast<float>(k) + 0.5f) /
                            static_cast<float>(levels);
    if (total <= 0)
      return;
    double before = 0;
    size_t k = 0;
    for (size_t bin = 0; bin < kBins && k < levels; ++bin) {
      before += weights[bin];
      while (k < levels && before >= total * (static_cast<double>(k) + 0.5) /
                                         static_cast<double>(levels))
        book[k++] = -1.0f + 2.0f * static_cast<float>(bin) / (kBins - 1);
    }
    for (unsigned round = 0; round < 48; ++round) {
      std::vector<double> weight(levels), sum(levels);
      size_t code = 0;
      for (size_t bin = 0; bin < kBins; ++bin) {
        const float value =
            -1.0f + 2.0f * static_cast<float>(bin) / (kBins - 1);
        while (code + 1 < levels &&
               value > 0.5f * (book[code] + book[code + 1]))
          ++code;
        weight[code] += weights[bin];
        sum[code] += sums[bin];
      }
      for (size_t c = 0; c < levels; ++c)
        if (weight[c] > 0)
          book[c] = static_cast<float>(sum[c] / weight[c]);
      std::sort(book.begin(), book.end());
    }
  }

private:
  static constexpr size_t kBins = 4097;
  std::vector<double> weights = std::vector<double>(kBins);
  std::vector<double> sums = std::vector<double>(kBins);
};

} // namespace

namespace {

/// Halves of a matrix, thinned out evenly to what a fit needs.
class Halves {
public:
  Halves(Floats matrix, uint64_t columns, Floats importance)
      : matrix(matrix), columns(columns), importance(importance),
        total(matrix.size() / kHalf) {}

  size_t size() const { return std::min(total, kMost); }
  const float *values(size_t i) const { return matrix.data() + at(i); }
  const float *weights(size_t i) const {
    return importance.empty() ? nullptr : importance.data() + at(i) % columns;
  }

private:
  static constexpr size_t kMost = 1 << 17;
  size_t at(size_t i) const {
    return (total > kMost ? i * total / kMost : i) * kHalf;
  }

  Floats matrix;
  uint64_t columns;
  Floats importance;
  size_t total;
};

} // namespace

/// A book from peaked halves and one from the others.
static std::vector<float> startFromQuantiles(const Halves &halves,
                                             size_t levels) {
  std::vector<float> books(2 * levels);
  Histogram histograms[2];
  for (size_t half = 0; half < halves.size(); ++half) {
    const float *x = halves.values(half), *w = halves.weights(half);
    float top = 0, square = 0;
    for (unsigned i = 0; i < kHalf; ++i) {
      top = std::max(top, std::fabs(x[i]));
      square += x[i] * x[i];
    }
    if (top == 0 || !std::isfinite(square))
      continue;
    const bool peaked = std::sqrt(square / kHalf) < kPeaked * top;
    for (unsigned i = 0; i < kHalf; ++i)
      histograms[peaked ? 0 : 1].add(x[i] / top, static_cast<double>(top) *
                                                     top * (w ? w[i] : 1));
  }
  for (unsigned b = 0; b < 2; ++b)
    histograms[b].fit(std::span(books).subspan(b * levels, levels));
  return books;
}

/// Mirrored books: a half may choose on which side it needs more levels.
static std::vector<float> startFromFixedLevels(size_t levels) {
  const std::vector<float> up =
      levels == 8 ? std::vector<float>{-0.66f, -0.33f, -0.16f, 0,
                                       0.16f,  0.33f,  0.66f,  1}
                  : std::vector<float>{-0.5f, 0, 0.5f, 1};
  std::vector<float> books = up;
  for (size_t k = 0; k < levels; ++k)
    books.push_back(-up[levels - 1 - k]);
  return books;
}

/// Alternates choice of codes with least-squares levels while the error falls,
/// which rounding and the few scales tried may prevent. Returns the error.
static double refineBooks(const Halves &halves, std::vector<float> &books) {
  const size_t levels = books.size() / 2;
  double least = std::numeric_limits<double>::infinity();
  std::vector<float> best;
  for (unsigned round = 0; round < 10; ++round) {
    for (unsigned b = 0; b < 2; ++b)
      roundBook(std::span(books).subspan(b * levels, levels));
    std::vector<double> product(2 * levels), square(2 * levels);
    double error = 0;
    const BookPair pair(books);
    for (size_t half = 0; half < halves.size(); ++half) {
      const float *x = halves.values(half), *w = halves.weights(half);
      HalfCode code;
      if (!pair.encode(x, w, code))
        continue;
      const double scale = ue4m3(static_cast<uint8_t>(code.scale));
      for (unsigned i = 0; i < kHalf; ++i) {
        const size_t at = code.book * levels + code.codes[i];
        const double weight = w ? w[i] : 1, d = x[i] - scale * books[at];
        error += weight * d * d;
        product[at] += weight * scale * x[i];
        square[at] += weight * scale * scale;
      }
    }
    if (error >= least)
      break;
    least = error;
    best = books;
    for (size_t at = 0; at < books.size(); ++at)
      if (square[at] > 0)
        books[at] = static_cast<float>(product[at] / square[at]);
  }
  books = best;
  return least;
}

std::vector<float> fitBooks(WeightFormat format, Floats matrix,
                            uint64_t columns, Floats importance) {
  const size_t levels = weightFormatInfo(format).bookLevels;
  const Halves halves(matrix, columns, importance);
  std::vector<float> first = startFromQuantiles(halves, levels);
  std::vector<float> second = startFromFixedLevels(levels);
  const double firstError = refineBooks(halves, first);
  return refineBooks(halves, second) < firstError ? second : first;
}

} // namespace ds4::quant
