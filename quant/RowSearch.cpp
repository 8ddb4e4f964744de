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

namespace {

constexpr unsigned kMaxLevels = 16, kMostInGroup = 32;

/// Levels in ascending order with their codes.
struct Book {
  unsigned size = 0;
  std::array<float, kMaxLevels> level{};
  std::array<float, kMaxLevels> midpoint{}; ///< between a level and the next
  std::array<uint8_t, kMaxLevels> code{};
  float greatest = 0;

  void add(float value, unsigned asCode) {
    if (size > 0)
      midpoint[size - 1] = 0.5f * (level[size - 1] + value);
    level[size] = value;
    code[size++] = static_cast<uint8_t>(asCode);
    greatest = std::max(greatest, std::fabs(value));
  }
  unsigned nearest(float value) const {
    unsigned k = 0;
    for (unsigned i = 0; i + 1 < size; ++i)
      k += value > midpoint[i];
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

  /// Codes by error feedback.
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

  /// Lowers the error from there.
  void descend() {
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

  /// Book and scale with which the group at column `first` of values `x`
  /// costs least, feedback inside the group included.
  Group chooseScale(const float *x, uint64_t first) const {
    const unsigned n = layout.group;
    float top = 0;
    for (unsigned i = 0; i < n; ++i)
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
        std::array<float, kMostInGroup> left;
        std::copy_n(x, n, left.begin());
        float error = 0;
        for (unsigned i = 0; i < n && error < least; ++i) {
          const uint64_t column = first + i;
          const float *u = moments.feedback(column);
          const uint64_t begin = blockBegin(column);
          const float e =
              (left[i] - scale * book.level[book.nearest(left[i] * inverse)]) /
              u[column - begin];
          error += e * e;
          const uint64_t end = std::min(blockEnd(column), first + n);
          for (uint64_t k = column + 1; k < end; ++k)
            left[k - first] -= e * u[k - begin];
        }
        if (error < least) {
          least = error;
          best = {b, static_cast<unsigned>(byte)};
        }
      }
    }
    return best;
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
    const uint64_t first = g * layout.group;
    const unsigned n = layout.group;
    std::array<std::array<float, kMostInGroup>, kMostInGroup> m;
    for (unsigned i = 0; i < n; ++i)
      for (unsigned j = 0; j < n; ++j)
        m[i][j] = moment(first + i, first + j);
    float least = 0;
    Group best = groups[g];
    std::array<uint8_t, kMostInGroup> bestIndex{};
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
        std::array<float, kMostInGroup> local, now;
        std::array<uint8_t, kMostInGroup> codes{};
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
  search.feedForward();
  search.descend();
  search.write(!books.empty(), out);
}

} // namespace ds4::quant
