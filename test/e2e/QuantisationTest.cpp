// What searching for codes is worth: moments collected from one piece of text,
// errors of outputs measured on another.
#include "ops/Reference.h"
#include "quant/Imatrix.h"
#include "quant/Quantizer.h"
#include "runtime/ImportanceMatrix.h"
#include "test/e2e/ObservedModel.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

using namespace ds4;
using namespace ds4::quant;

static constexpr char kModel[] =
    DS4_SOURCE_DIR "/models/ds4-tiny/ds4-tiny-demo.gguf";
static constexpr char kText[] = DS4_SOURCE_DIR "/test/e2e/Inputs/austen.ids";
static const std::string kWeight = "blk.4.attn_output_a.weight";

namespace {

class Quantisation : public testing::Test {
protected:
  static void SetUpTestSuite() {
    model = std::make_unique<test::ObservedModel>(kModel, "ds4-quantisation");
  }
  static void TearDownTestSuite() { model.reset(); }

  /// Statistics of the model's inputs over `ids`.
  Imatrix collect(std::span<const int32_t> ids, const char *name) {
    const std::unique_ptr<Session> session = model->open(64);
    ImportanceMatrix matrix(1 << 20);
    session->hooks.observe = [&](const Observation &it, const Step &,
                                 std::span<const float> rows,
                                 std::span<const int32_t> chosen) {
      if (it.weight == kWeight)
        matrix.add(it, rows, chosen);
    };
    EXPECT_TRUE(session->forward(ids, {}));
    EXPECT_TRUE(matrix.write(model->folder / name, {}));
    return *Imatrix::open(model->folder / name);
  }

  /// Rows of the weight in `file`.
  static std::vector<std::vector<float>> rowsOf(const Gguf &file) {
    const GgufTensor &tensor = *file.findTensor(kWeight);
    std::vector<uint8_t> bytes(tensor.bytes);
    std::ifstream stream(file.path(), std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(tensor.fileOffset));
    stream.read(reinterpret_cast<char *>(bytes.data()),
                static_cast<std::streamsize>(bytes.size()));
    std::vector<std::vector<float>> rows;
    for (uint64_t r = 0; r < tensor.rows(); ++r)
      rows.push_back(
          ref::weightRow({tensor.format(), bytes, tensor.dims[0]}, r));
    return rows;
  }

  /// x^T M x, M of one block.
  static double quadraticForm(std::span<const float> m,
                              std::span<const float> x) {
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i)
      for (size_t j = 0; j < x.size(); ++j)
        sum += static_cast<double>(m[i * x.size() + j]) * x[i] * x[j];
    return sum;
  }

  /// The error of outputs, in units of the outputs' power, that three bits
  /// cost the weight on inputs like `heldOut`.
  double error(const Imatrix &imatrix, bool search, const Imatrix &heldOut) {
    QuantizeOptions options;
    options.recipe = *parseRecipe(
        "types = [[\"" + kWeight + "\", 104], [\"*\", \"keep\"]]", "test");
    options.imatrix = &imatrix;
    options.search = search;
    const auto out = model->folder / "out.gguf";
    const auto reports = quantizeFile(*model->gguf, out, options);
    EXPECT_TRUE(reports) << reports.error().text;
    const Result<Gguf> quantised = Gguf::open(out);
    EXPECT_TRUE(quantised);
    const auto before = rowsOf(*model->gguf), after = rowsOf(*quantised);
    const uint64_t columns = before[0].size();
    const auto stats = heldOut.statistics(kWeight, columns, 1);
    EXPECT_TRUE(stats && *stats);
    const auto sums = heldOut.moments(kWeight, **stats, 0);
    EXPECT_TRUE(sums);
    double wrong = 0, power = 0;
    for (size_t r = 0; r < before.size(); ++r) {
      std::vector<float> difference = before[r];
      for (uint64_t i = 0; i < columns; ++i)
        difference[i] -= after[r][i];
      wrong += quadraticForm(*sums, difference);
      power += quadraticForm(*sums, before[r]);
    }
    return wrong / power;
  }

  static std::unique_ptr<test::ObservedModel> model;
};
std::unique_ptr<test::ObservedModel> Quantisation::model;

TEST_F(Quantisation, SearchLowersErrorsOnTextThatItDidNotSee) {
  std::ifstream stream(kText);
  const std::vector<int32_t> ids(std::istream_iterator<int32_t>(stream), {});
  ASSERT_EQ(ids.size(), 300u);
  const std::span<const int32_t> all(ids);
  const Imatrix seen = collect(all.first(200), "seen.gguf");
  const Imatrix heldOut = collect(all.subspan(200), "held_out.gguf");
  const double reference = error(seen, false, heldOut);
  const double searched = error(seen, true, heldOut);
  EXPECT_LT(searched, 0.65 * reference) << reference;
}

} // namespace
