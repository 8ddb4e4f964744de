// RowSearch.cpp - error feedback (as GPTQ does it), then descent. All errors
// are e^T M e with e = row - encoded; g = M e is kept up to date, so that
// changing column j by d changes the error by d (d M_jj - 2 g_j).
#include "quant/RowSearch.h"

#include "ops/CodeLayout.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

namespace ds4::quant {

/// Added to the diagonal, in units of its mean. Moments of few inputs promise
/// cancellations that other inputs do not keep.
static constexpr double kDamping = 0.02;

InputMoments::InputMoments(const InputStatistics &stats, uint64_t matrix)
    : count(stats.columns), blockColumns(stats.block),
      moments(count * blockColumns), factor(count * blockColumns) {
  assert(stats.block > 0 && stats.counts[matrix] > 0);
  const float *sums = &stats.moments[matrix * count * blockColumns];
  const double inputs = stats.counts[matrix];
  double mean = 0;
  for (uint64_t i = 0; i < count; ++i)
    mean += sums[i * blockColumns + i % blockColumns] / inputs;
  const double damping =
      std::max(kDamping * mean / static_cast<double>(count), 1e-12);
  for (uint64_t i = 0; i < moments.size(); ++i)
    moments[i] = static_cast<float>(sums[i] / inputs);
  for (uint64_t first = 0; first < count; first += blockColumns) {
    const uint64_t n = std::min(blockColumns, count - first);
    for (uint64_t i = 0; i < n; ++i)
      moments[(first + i) * blockColumns + i] += static_cast<float>(damping);
    // With columns in reverse, M = L L^T gives M^-1 = U^T U, where U = L^-1
    // in reverse is upper triangular: row i of U holds what an error in column
    // i means for the columns after it.
    std::vector<double> lower(n * n), inverse(n * n);
    const auto at = [&](uint64_t i, uint64_t j) -> double {
      return moments[(first + n - 1 - i) * blockColumns + n - 1 - j];
    };
    for (uint64_t j = 0; j < n; ++j) {
      double diagonal = at(j, j);
      for (uint64_t k = 0; k < j; ++k)
        diagonal -= lower[j * n + k] * lower[j * n + k];
      diagonal = std::sqrt(std::max(diagonal, damping * 1e-3));
      lower[j * n + j] = diagonal;
      for (uint64_t i = j + 1; i < n; ++i) {
        double sum = at(i, j);
        for (uint64_t k = 0; k < j; ++k)
          sum -= lower[i * n + k] * lower[j * n + k];
        lower[i * n + j] = sum / diagonal;
      }
    }
    for (uint64_t j = 0; j < n; ++j) {
      inverse[j * n + j] = 1 / lower[j * n + j];
      for (uint64_t i = j + 1; i < n; ++i) {
        double sum = 0;
        for (uint64_t k = j; k < i; ++k)
          sum -= lower[i * n + k] * inverse[k * n + j];
        inverse[i * n + j] = sum / lower[i * n + i];
      }
    }
    for (uint64_t i = 0; i < n; ++i)
      for (uint64_t j = i; j < n; ++j)
        factor[(first + i) * blockColumns + j] =
            static_cast<float>(inverse[(n - 1 - i) * n + (n - 1 - j)]);
  }
}

namespace {

constexpr unsigned kMaxLevels = 16;

/// Levels in ascending order with their codes.
struct Book {
  unsigned size = 0;
  std::array<float, kMaxLevels> level{};
  std::array<uint8_t, kMaxLevels> code{};
  float greatest = 0;

  void add(float value, unsigned asCode) {
    level[size] = value;
    code[size++] = static_cast<uint8_t>(asCode);
    greatest = std::max(greatest, std::fabs(value));
  }
  unsigned nearest(float value) const {
    unsigned k = 0;
    for (unsigned i = 0; i + 1 < size; ++i)
      k += value > 0.5f * (level[i] + level[i + 1]);
    return k;
  }
};

/// A format as groups that share a scale and a book.
struct Layout {
  const WeightFormatInfo &info;
  const ref::CodeLayout &codes;
  unsigned group;
  std::vector<Book> books;

  Layout(WeightFormat format, Floats learned)
      : info(weightFormatInfo(format)), codes(ref::codeLayout(format)),
        group(32 / codes.scales) {
    if (learned.empty()) {
      books.push_back(fixedBook());
      return;
    }
    for (unsigned b = 0; b < 2; ++b) {
      Book book;
      for (unsigned k = 0; k < info.bookLevels; ++k)
        book.add(learned[b * info.bookLevels + k], k);
      books.push_back(book);
    }
  }

private:
  /// The record's levels; of codes with one level the lowest.
  Book fixedBook() const {
    std::vector<std::pair<int, unsigned>> levels;
    for (unsigned code = 0; code < 1u << codes.bits(); ++code)
      levels.emplace_back(codes.level(code), code);
    std::ranges::sort(levels);
    Book book;
    for (size_t i = 0; i < levels.size(); ++i)
      if (i == 0 || levels[i].first != levels[i - 1].first)
        book.add(static_cast<float>(levels[i].first), levels[i].second);
    return book;
  }
};

/// The search of one row.
class Search {
public:
  Search(const Layout &layout, Floats row, const InputMoments &moments)
      : layout(layout), row(row), moments(moments),
        groups(row.size() / layout.group), index(row.size()), value(row.size()),
        gradient(row.size()) {}

  void run() {
    feedForward();
    computeGradient();
    for (unsigned round = 0; round < kRounds; ++round) {
      bool changed = descendCodes();
      for (size_t g = 0; g < groups.size(); ++g)
        changed |= improveGroup(g);
      if (!changed)
        break;
    }
    descendCodes();
  }

  void write(bool bookBits, uint8_t *out) const {
    const unsigned scales = 32 / layout.group;
    const WeightFormatInfo &info = layout.info;
    std::memset(out, 0, row.size() / 32 * info.blockBytes);
    for (size_t g = 0; g < groups.size(); ++g)
      out[g / scales * info.blockBytes + info.scaleOffset + g % scales] =
          static_cast<uint8_t>(groups[g].scale |
                               (bookBits ? groups[g].book << 7 : 0));
    for (size_t i = 0; i < row.size(); ++i) {
      const Book &book = layout.books[groups[i / layout.group].book];
      layout.codes.put(out + i / 32 * info.blockBytes, i % 32,
                       book.code[index[i]]);
    }
  }

private:
  static constexpr unsigned kRounds = 2;

  struct Group {
    unsigned book = 0, scale = 1;
  };

  uint64_t blockBegin(uint64_t i) const {
    return i / moments.block() * moments.block();
  }
  uint64_t blockEnd(uint64_t i) const {
    return std::min<uint64_t>(blockBegin(i) + moments.block(), row.size());
  }
  float moment(uint64_t i, uint64_t j) const {
    return j >= blockBegin(i) && j < blockEnd(i)
               ? moments.row(i)[j - blockBegin(i)]
               : 0.0f;
  }

  /// Book and scale of least error of values `x` at column `first`, each
  /// column weighed by what feedback cannot repair.
  Group chooseScale(const float *x, uint64_t first) const {
    float top = 0;
    for (unsigned i = 0; i < layout.group; ++i)
      top = std::max(top, std::fabs(x[i]));
    Group best;
    float least = std::numeric_limits<float>::infinity();
    for (unsigned b = 0; b < layout.books.size(); ++b) {
      const Book &book = layout.books[b];
      const int centre = nearestUe4m3(top / std::max(book.greatest, 1e-6f));
      for (int byte = std::max(centre - 10, 1);
           byte <= std::min(centre + 4, 126); ++byte) {
        const float scale = ue4m3(static_cast<uint8_t>(byte));
        const float inverse = 1.0f / scale;
        float error = 0;
        for (unsigned i = 0; i < layout.group && error < least; ++i) {
          const uint64_t column = first + i;
          const float u = moments.feedback(column)[column - blockBegin(column)];
          const float d =
              x[i] - scale * book.level[book.nearest(x[i] * inverse)];
          error += d * d / (u * u);
        }
        if (error < least) {
          least = error;
          best = {b, static_cast<unsigned>(byte)};
        }
      }
    }
    return best;
  }

  void feedForward() {
    std::vector<float> x(row.begin(), row.end());
    for (size_t g = 0; g < groups.size(); ++g) {
      const uint64_t first = g * layout.group;
      groups[g] = chooseScale(&x[first], first);
      const Book &book = layout.books[groups[g].book];
      const float scale = ue4m3(static_cast<uint8_t>(groups[g].scale));
      for (uint64_t i = first; i < first + layout.group; ++i) {
        index[i] = static_cast<uint8_t>(book.nearest(x[i] / scale));
        value[i] = scale * book.level[index[i]];
        const float *u = moments.feedback(i);
        const uint64_t begin = blockBegin(i), end = blockEnd(i);
        const float error = (x[i] - value[i]) / u[i - begin];
        for (uint64_t k = i + 1; k < end; ++k)
          x[k] -= error * u[k - begin];
      }
    }
  }

  void computeGradient() {
    std::fill(gradient.begin(), gradient.end(), 0.0f);
    for (uint64_t i = 0; i < row.size(); ++i)
      addError(i, row[i] - value[i]);
  }

  /// Adds `d` to the error of column i.
  void addError(uint64_t i, float d) {
    const float *m = moments.row(i);
    const uint64_t begin = blockBegin(i), end = blockEnd(i);
    for (uint64_t j = begin; j < end; ++j)
      gradient[j] += d * m[j - begin];
  }

  bool descendCodes() {
    bool any = false;
    for (unsigned sweep = 0; sweep < 8; ++sweep) {
      bool changed = false;
      for (uint64_t i = 0; i < row.size(); ++i) {
        const Group &group = groups[i / layout.group];
        const Book &book = layout.books[group.book];
        const float scale = ue4m3(static_cast<uint8_t>(group.scale));
        const float m = moment(i, i);
        const unsigned k = book.nearest((value[i] + gradient[i] / m) / scale);
        const float d = scale * book.level[k] - value[i];
        if (k == index[i] || !(d * (d * m - 2 * gradient[i]) < 0))
          continue;
        index[i] = static_cast<uint8_t>(k);
        value[i] += d;
        value[i] = scale * book.level[k];
        addError(i, -d);
        changed = true;
      }
      if (!changed)
        break;
      any = true;
    }
    return any;
  }

  /// Tries other scales and books for a group, its codes chosen anew for
  /// each; keeps the best if it lowers the error.
  bool improveGroup(size_t g) {
    constexpr unsigned kMost = 32;
    const uint64_t first = g * layout.group;
    const unsigned n = layout.group;
    std::array<std::array<float, kMost>, kMost> m;
    for (unsigned i = 0; i < n; ++i)
      for (unsigned j = 0; j < n; ++j)
        m[i][j] = moment(first + i, first + j);
    float least = 0;
    Group best = groups[g];
    std::array<uint8_t, kMost> bestIndex{};
    for (unsigned b = 0; b < layout.books.size(); ++b) {
      const Book &book = layout.books[b];
      int centre = static_cast<int>(groups[g].scale);
      if (b != groups[g].book)
        centre = nearestUe4m3(ue4m3(static_cast<uint8_t>(groups[g].scale)) *
                              layout.books[groups[g].book].greatest /
                              std::max(book.greatest, 1e-6f));
      for (int byte = std::max(centre - 4, 1);
           byte <= std::min(centre + 4, 126); ++byte) {
        const float scale = ue4m3(static_cast<uint8_t>(byte));
        std::array<float, kMost> local, now;
        std::array<uint8_t, kMost> codes{};
        for (unsigned i = 0; i < n; ++i) {
          local[i] = gradient[first + i];
          now[i] = value[first + i];
        }
        float change = 0;
        for (unsigned sweep = 0; sweep < 3; ++sweep)
          for (unsigned i = 0; i < n; ++i) {
            const unsigned k =
                book.nearest((now[i] + local[i] / m[i][i]) / scale);
            const float d = scale * book.level[k] - now[i];
            codes[i] = static_cast<uint8_t>(k);
            if (d == 0)
              continue;
            change += d * (d * m[i][i] - 2 * local[i]);
            now[i] = scale * book.level[k];
            for (unsigned j = 0; j < n; ++j)
              local[j] -= d * m[i][j];
          }
        if (change < least - 1e-7f * std::fabs(least)) {
          least = change;
          best = {b, static_cast<unsigned>(byte)};
          bestIndex = codes;
        }
      }
    }
    if (!(least < 0))
      return false;
    groups[g] = best;
    const float scale = ue4m3(static_cast<uint8_t>(best.scale));
    for (unsigned i = 0; i < n; ++i) {
      const uint64_t column = first + i;
      const float now = scale * layout.books[best.book].level[bestIndex[i]];
      const float d = now - value[column];
      index[column] = bestIndex[i];
      value[column] = now;
      if (d != 0)
        addError(column, -d);
    }
    return true;
  }

  const Layout &layout;
  Floats row;
  const InputMoments &moments;
  std::vector<Group> groups;
  std::vector<uint8_t> index;
  std::vector<float> value, gradient;
};

} // namespace

bool canSearch(WeightFormat format) {
  switch (format) {
  case WeightFormat::q4_0_rocmfp4_fast:
  case WeightFormat::q3_0_rocmfpx:
  case WeightFormat::q3_1_rocmfp3_mix:
  case WeightFormat::q2_1_rocmfp2_mix:
  case WeightFormat::q2_0_rocmfp2:
    return true;
  default:
    return false;
  }
}

void searchRow(WeightFormat format, Floats books, Floats row,
               const InputMoments &moments, uint8_t *out) {
  assert(canSearch(format) && row.size() == moments.columns());
  const Layout layout(format, books);
  // Blocks of moments hold whole groups, except that the last may be cut.
  Search search(layout, row, moments);
  search.run();
  search.write(!books.empty(), out);
}

} // namespace ds4::quant
