// LinearCases.h - one kernel of a linear or of an expert product with random
// operands, held to the oracle: for tests of all formats, layouts and ways to
// cut the launch.
#ifndef DS4_OPS_TEST_LINEARCASES_H
#define DS4_OPS_TEST_LINEARCASES_H

#include "ops/Reference.h"
#include "ops/test/KernelHarness.h"
#include "ops/test/RandomWeights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <deque>
#include <optional>

namespace ds4::test {

inline std::string q8(std::initializer_list<int64_t> shape) {
  return fmt::format("!ds4.q8<{}>", fmt::join(shape, "x"));
}

inline std::string activation(bool int8, std::initializer_list<int64_t> shape) {
  return int8 ? q8(shape) : tensor(shape);
}

inline std::string weightOf(WeightFormat format,
                            std::initializer_list<int64_t> shape,
                            WeightLayout layout = WeightLayout::file) {
  return weight(shape, weightFormatInfo(format).name, layout);
}

/// Activations of one kernel: f32, or the same quantised.
struct Inputs {
  Inputs(Random &random, bool int8, uint64_t vectors, uint64_t width)
      : values(random.floats(vectors * width, 2)), width(width) {
    if (int8)
      codes = ref::quantize(width, values);
  }

  ref::Act act() const {
    return codes ? ref::Act(*codes) : ref::Act(values, width);
  }
  Memory memory() const { return codes ? in(codes->bytes) : in(values); }

  std::vector<float> values;
  uint64_t width;
  std::optional<ref::Q8> codes;
};

struct LinearCase {
  int64_t capacity, groups, out, columns;
  WeightFormat format;
  bool int8;
  Step step;
  RowRatio ratio;
  std::string target;
  Kernel kernel;

  /// groups = 0: ds4.linear. `shared`: rows that share what is decoded of the
  /// weight.
  LinearCase(int64_t capacity, int64_t groups, int64_t out, int64_t columns,
             WeightFormat format, bool int8, Step step, RowRatio ratio = 1,
             int64_t shared = 1, std::string target = "host",
             WeightLayout layout = WeightLayout::file)
      : capacity(capacity), groups(groups), out(out), columns(columns),
        format(format), int8(int8), step(step), ratio(ratio),
        target(std::move(target)), kernel(make(shared, layout)) {}

  Kernel make(int64_t shared, WeightLayout layout) const {
    std::vector<std::string> operands = {
        groups ? activation(int8, {capacity, groups, columns})
               : activation(int8, {capacity, columns}),
        weightOf(format, {rows(), columns}, layout)};
    std::string op = groups ? "ds4.grouped_linear %0, %1" : "ds4.linear %0, %1";
    if (weightFormatInfo(format).bookLevels) {
      op += " books %2";
      operands.push_back(test::books(format, int8, 1));
    }
    return Kernel(op + attributesText(groups ? 1 : ratio, shared), operands,
                  {tensor({capacity, rows()})}, target);
  }
  int64_t rows() const { return groups ? groups * out : out; }

  static std::string attributesText(RowRatio ratio, int64_t shared) {
    std::string rows = ratio == 1   ? "tokens"
                       : ratio == 0 ? "outputs"
                                    : fmt::format("windows {}", ratio);
    return fmt::format(" {{rows = #ds4.rows<{}>, ds4.columns = {}:i32}}", rows,
                       shared);
  }

  void run() const {
    SCOPED_TRACE(fmt::format("{} {}x{}x{} {} {}", weightFormatInfo(format).name,
                             groups, out, columns, int8 ? "int8" : "f32",
                             target));
    const uint64_t vectorsPerRow = groups ? groups : 1;
    const uint64_t rows = rowsInStep(ratio, step);
    Random random(columns + out);
    const auto weights =
        randomWeights(random, format, vectorsPerRow * out, columns);
    const auto books = randomBooks(random, format, 1);
    const auto int8Form = int8Books(format, books);
    const Inputs x(random, int8, rows * vectorsPerRow, columns);
    std::vector<float> got(rows * vectorsPerRow * out), want = got;
    const uint64_t width = columns;
    const ref::Weight weight{format, weights, width, books, 0, int8Form};
    if (groups)
      ref::groupedLinear(groups, x.act(), weight, want);
    else
      ref::linear(x.act(), weight, want);
    kernel.run(step, {x.memory(), in(weights),
                      books.empty() ? none()
                      : int8        ? in(int8Form)
                                    : in(books),
                      test::out(got)});
    expectSameBits(want, got, "linear");
  }
};

struct ExpertCase {
  int64_t capacity, experts, used, out, columns;
  WeightFormat format;
  bool int8;
  Step step;
  int64_t shared; ///< tokens that share what is decoded of an expert
  bool grouped;   ///< by the pairs of ds4.group_pairs
  std::string target;
  WeightLayout layout;
  Kernel gateUp, down;

  ExpertCase(int64_t capacity, int64_t experts, int64_t used, int64_t out,
             int64_t columns, WeightFormat format, bool int8, Step step,
             int64_t shared = 1, bool grouped = false,
             std::string target = "host",
             WeightLayout layout = WeightLayout::file)
      : capacity(capacity), experts(experts), used(used), out(out),
        columns(columns), format(format), int8(int8), step(step),
        shared(shared), grouped(grouped), target(std::move(target)),
        layout(layout), gateUp(makeGateUp()), down(makeDown()) {}

  /// " pairs %N" with the operand's type behind `operands`, and attributes.
  std::string rest(std::vector<std::string> &operands) const {
    std::string text;
    if (grouped) {
      text = fmt::format(" pairs %{}", operands.size());
      operands.push_back(chosen());
    }
    return text + fmt::format(" {{ds4.columns = {}:i32}}", shared);
  }

  int64_t levels() const { return weightFormatInfo(format).bookLevels; }
  std::string matrices() const {
    return weightOf(format, {experts, out, columns}, layout);
  }
  std::string books() const { return test::books(format, int8, experts); }
  std::string chosen() const { return tensor({capacity, used}, "i32"); }
  std::string results() const { return tensor({capacity, used, out}); }

  Kernel makeGateUp() const {
    std::vector<std::string> operands = {activation(int8, {capacity, columns}),
                                         chosen(), matrices(), matrices()};
    if (levels())
      operands.insert(operands.end(), {books(), books()});
    const std::string end = rest(operands);
    return Kernel((levels() ? "ds4.expert_gate_up %0, %1, %2, %3 books %4, %5"
                            : "ds4.expert_gate_up %0, %1, %2, %3") +
                      end,
                  operands, {results(), results()}, target);
  }
  Kernel makeDown() const {
    std::vector<std::string> operands = {
        activation(int8, {capacity, used, columns}), chosen(), matrices()};
    if (levels())
      operands.push_back(books());
    const std::string end = rest(operands);
    return Kernel((levels() ? "ds4.expert_down %0, %1, %2 books %3"
                            : "ds4.expert_down %0, %1, %2") +
                      end,
                  operands, {results()}, target);
  }

  void run() const {
    SCOPED_TRACE(fmt::format("{} {}x{}x{} {} {}", weightFormatInfo(format).name,
                             experts, out, columns, int8 ? "int8" : "f32",
                             target));
    Random random(columns + out + experts);
    const uint64_t rows = step.count, rowsOfAll = experts * out;
    std::vector<int32_t> list(rows * used);
    for (int32_t &expert : list)
      expert = static_cast<int32_t>(random.below(experts));
    list.back() = static_cast<int32_t>(experts - 1);
    const auto gate = randomWeights(random, format, rowsOfAll, columns);
    const auto up = randomWeights(random, format, rowsOfAll, columns);
    const auto gateBooks = randomBooks(random, format, experts);
    const auto upBooks = randomBooks(random, format, experts);
    const uint64_t width = columns, perExpert = out;
    const auto gateInt8 = int8Books(format, gateBooks);
    const auto upInt8 = int8Books(format, upBooks);
    const ref::Weight refGate{format,    gate,      width,
                              gateBooks, perExpert, gateInt8};
    const ref::Weight refUp{format, up, width, upBooks, perExpert, upInt8};
    const auto optional = [this](const auto &books, const auto &int8Form) {
      return books.empty() ? none() : int8 ? in(int8Form) : in(books);
    };

    std::vector<int32_t> sorted(grouped ? list.size() : 0);
    if (grouped)
      ref::groupPairs(list, sorted);
    const auto pairs = [&] { return grouped ? in(sorted) : none(); };

    const Inputs x(random, int8, rows, columns);
    std::vector<float> g(rows * used * out), u = g, wantG = g, wantU = g;
    ref::expertGateUp(x.act(), list, refGate, refUp, wantG, wantU);
    gateUp.run(step, {x.memory(), in(list), in(gate), in(up),
                      optional(gateBooks, gateInt8), optional(upBooks, upInt8),
                      pairs(), test::out(g), test::out(u)});
    expectSameBits(wantG, g, "gate");
    expectSameBits(wantU, u, "up");

    const Inputs h(random, int8, rows * used, columns);
    std::vector<float> y(rows * used * out), wantY = y;
    ref::expertDown(h.act(), list, refGate, wantY);
    down.run(step, {h.memory(), in(list), in(gate),
                    optional(gateBooks, gateInt8), pairs(), test::out(y)});
    expectSameBits(wantY, y, "down");
  }
};

} // namespace ds4::test

#endif // DS4_OPS_TEST_LINEARCASES_H
