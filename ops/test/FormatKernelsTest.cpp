// FormatKernelsTest.cpp - a linear in every block-quantised format against the
// oracle, bit for bit: the smallest legal row and 128 to 8192 columns; 1 to 8
// vectors at a time give what each gives alone. Layout `lanes` also with
// segments of 1, 5 and 12 blocks.
#include "ops/Reference.h"
#include "ops/test/KernelHarness.h"
#include "ops/test/RandomWeights.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <set>

namespace ds4::test {
namespace {

constexpr int64_t kVectors = 8, kRows = 20;

struct FormatCase {
  WeightFormat format;
  int64_t columns;
  bool int8;
  WeightLayout layout;
  Kernel kernel;

  FormatCase(const WeightFormatInfo &info, int64_t columns, bool int8,
             WeightLayout layout = WeightLayout::file)
      : format(info.format), columns(columns), int8(int8), layout(layout),
        kernel(info.bookLevels ? "ds4.linear %0, %1 books %2"
                               : "ds4.linear %0, %1",
               operands(), {tensor({kVectors, kRows})}) {}

  std::vector<std::string> operands() const {
    std::vector<std::string> types = {
        int8 ? fmt::format("!ds4.q8<{}x{}>", kVectors, columns)
             : tensor({kVectors, columns}),
        weight({kRows, columns}, weightFormatInfo(format).name, layout)};
    if (weightFormatInfo(format).bookLevels)
      types.push_back(books(format, int8, 1));
    return types;
  }

  void run() const;
};

const std::deque<FormatCase> &formatCases() {
  static const std::deque<FormatCase> cases = [] {
    std::deque<FormatCase> all;
    for (const WeightFormatInfo &info : weightFormats()) {
      if (!info.quantised)
        continue;
      const int64_t smallest = info.rowMultiple;
      std::set<int64_t> lengths{smallest, std::max<int64_t>(128, smallest)};
      for (int64_t length = 1024; length <= 8192; length *= 2)
        lengths.insert(length);
      for (const int64_t length : lengths)
        all.emplace_back(info, length, true);
      for (const int64_t segment : {1, 5, 12, 64})
        if (const int64_t row = 8 * info.blockElements * segment; row <= 16384)
          all.emplace_back(info, row, true, WeightLayout::lanes);
      all.emplace_back(info, smallest, false);
      all.emplace_back(info, 2048, false);
    }
    return all;
  }();
  return cases;
}
// Declares the kernels before the first test runs.
const std::deque<FormatCase> &allFormatCases = formatCases();

/// The first `count` vectors of x, as an argument and for the oracle.
struct Activations {
  Activations(std::span<const float> x, int64_t columns, bool int8)
      : values(x.begin(), x.end()), columns(columns) {
    if (int8)
      codes = ref::quantize(columns, values);
  }
  ref::Act act() const {
    return codes ? ref::Act(*codes) : ref::Act(values, columns);
  }
  Memory memory() const { return codes ? in(codes->bytes) : in(values); }

  std::vector<float> values;
  uint64_t columns;
  std::optional<ref::Q8> codes;
};

void FormatCase::run() const {
  SCOPED_TRACE(fmt::format("{} {} {} {}", weightFormatInfo(format).name,
                           columns, int8 ? "int8" : "f32",
                           weightLayoutName(layout)));
  Random random(columns);
  const std::vector<uint8_t> weights =
      randomWeights(random, format, kRows, columns);
  const std::vector<float> x = random.floats(kVectors * columns);
  const Activations all(x, columns, int8);
  std::vector<float> want(kVectors * kRows);
  const std::vector<float> floatBooks = randomBooks(random, format, 1);
  const std::vector<uint8_t> bytes = int8Books(format, floatBooks);
  const Memory levels = floatBooks.empty() ? none()
                        : int8             ? in(bytes)
                                           : in(floatBooks);
  ref::linear(all.act(), {format, weights, all.columns, floatBooks, 0, bytes},
              want);

  const auto compare = [&](uint64_t first, uint64_t count) {
    const Activations some(
        std::span<const float>(x).subspan(first * columns, count * columns),
        columns, int8);
    std::vector<float> got(count * kRows);
    const Step step{0, static_cast<int32_t>(count), 1, 0};
    kernel.run(step, {some.memory(), in(weights), levels, out(got)});
    const auto begin = want.begin() + first * kRows;
    expectSameBits(std::vector<float>(begin, begin + count * kRows), got,
                   fmt::format("{} vectors from {}", count, first));
  };
  for (uint64_t count = 1; count <= kVectors; ++count)
    compare(0, count);
  for (uint64_t vector = 1; vector < kVectors; ++vector)
    compare(vector, 1);
}

TEST(FormatKernels, LinearsEqualTheOracle) {
  for (const FormatCase &c : allFormatCases) {
    c.run();
    if (HasFailure())
      return;
  }
}

} // namespace
} // namespace ds4::test
