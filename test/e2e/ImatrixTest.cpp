// Importance matrices of the demo model: the same sums as from trace points of
// the same activations, and the same for every cut of the text into steps.
#include "runtime/ImportanceMatrix.h"
#include "test/e2e/ObservedModel.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>

using namespace ds4;

static constexpr char kModel[] =
    DS4_SOURCE_DIR "/models/ds4-tiny/ds4-tiny-strix.gguf";

namespace {

constexpr uint32_t kTokens = 70, kHidden = 256, kUsed = 3;

class Imatrix : public testing::Test {
protected:
  static void SetUpTestSuite() {
    model = std::make_unique<test::ObservedModel>(kModel, "ds4-imatrix");
  }
  static void TearDownTestSuite() { model.reset(); }

  /// Runs random tokens in steps of at most `chunk`; collects into `matrix`
  /// and, from trace points, into `sums`: of the squares of each column.
  void collect(uint32_t chunk, ImportanceMatrix &matrix,
               std::map<std::string, std::vector<double>> &sums) {
    const std::unique_ptr<Session> session = model->open(chunk);
    ASSERT_TRUE(session);
    session->hooks.observe =
        [&](const Observation &it, const Step &, std::span<const float> rows,
            std::span<const int32_t> chosen) { matrix.add(it, rows, chosen); };
    session->hooks.trace = [&](const TracePoint &point, const Step &,
                               std::span<const float> rows) {
      std::vector<double> &columns = sums[point.name];
      columns.resize(point.rowElements);
      for (size_t i = 0; i < rows.size(); ++i)
        columns[i % point.rowElements] += double(rows[i]) * rows[i];
    };
    std::mt19937 random(3);
    std::vector<int32_t> ids(kTokens);
    for (int32_t &id : ids)
      id = static_cast<int32_t>(random() % session->vocab());
    std::vector<uint32_t> rows(kTokens);
    std::iota(rows.begin(), rows.end(), 0);
    Result<Logits> logits = session->forward(ids, rows);
    ASSERT_TRUE(logits) << logits.error().text;
  }

  static std::unique_ptr<test::ObservedModel> model;
};
std::unique_ptr<test::ObservedModel> Imatrix::model;

/// Sums over all experts.
std::vector<double> overExperts(const ImportanceMatrix::Entry &entry) {
  std::vector<double> sums(entry.width);
  for (size_t i = 0; i < entry.squares.size(); ++i)
    sums[i % entry.width] += entry.squares[i];
  return sums;
}

uint64_t vectors(const ImportanceMatrix::Entry &entry) {
  return std::accumulate(entry.counts.begin(), entry.counts.end(), uint64_t(0));
}

} // namespace

TEST_F(Imatrix, SumsAreThoseOfTheActivations) {
  ImportanceMatrix matrix;
  std::map<std::string, std::vector<double>> sums;
  collect(64, matrix, sums);
  for (int layer = 0; layer < 6; ++layer) {
    const std::string blk = "blk." + std::to_string(layer) + ".";
    const std::string point = "layer" + std::to_string(layer) + ".";
    auto entry = [&](const char *name) { // throws if there is none
      return matrix.entries().at(blk + name);
    };
    for (const char *name : {"attn_q_a.weight", "attn_kv.weight"}) {
      EXPECT_EQ(entry(name).squares, sums.at(point + "attn_in")) << blk << name;
      EXPECT_EQ(vectors(entry(name)), kTokens);
    }
    for (const char *name : {"ffn_gate_inp.weight", "ffn_gate_shexp.weight",
                             "ffn_up_shexp.weight"})
      EXPECT_EQ(entry(name).squares, sums.at(point + "ffn_in")) << blk << name;
    // The streams after a layer are what the next one's first site reads.
    if (layer < 5) {
      EXPECT_EQ(
          matrix.entries()
              .at("blk." + std::to_string(layer + 1) + ".hc_attn_fn.weight")
              .squares,
          sums.at(point + "streams"));
    }

    const ImportanceMatrix::Entry gate = entry("ffn_gate_exps.weight"),
                                  up = entry("ffn_up_exps.weight"),
                                  down = entry("ffn_down_exps.weight");
    EXPECT_EQ(gate.experts, 8u);
    EXPECT_EQ(gate.squares, up.squares);
    EXPECT_EQ(gate.counts, up.counts);
    EXPECT_EQ(gate.counts, down.counts);
    EXPECT_EQ(vectors(gate), kTokens * kUsed);
    // Each row went to three experts; only the order of additions differs.
    const std::vector<double> all = overExperts(gate);
    for (uint32_t i = 0; i < kHidden; ++i)
      EXPECT_NEAR(all[i], kUsed * sums.at(point + "ffn_in")[i],
                  1e-12 * all[i] + 1e-12);
    // Two groups of heads read output_a: two vectors a token.
    EXPECT_EQ(vectors(entry("attn_output_a.weight")) % kTokens, 0u);
    EXPECT_GT(vectors(entry("attn_output_a.weight")), kTokens);
  }
  EXPECT_EQ(vectors(matrix.entries().at("output.weight")), kTokens);
  EXPECT_FALSE(matrix.entries().contains("token_embd.weight"));
}

TEST_F(Imatrix, EveryCutGivesTheSameSums) {
  ImportanceMatrix whole(64);
  std::map<std::string, std::vector<double>> sums;
  collect(64, whole, sums);
  for (uint32_t chunk : {1, 7}) {
    ImportanceMatrix cut(64);
    collect(chunk, cut, sums);
    ASSERT_EQ(cut.entries().size(), whole.entries().size());
    for (const auto &[name, entry] : whole.entries()) {
      EXPECT_EQ(cut.entries().at(name).squares, entry.squares) << name;
      EXPECT_EQ(cut.entries().at(name).counts, entry.counts) << name;
      EXPECT_EQ(cut.entries().at(name).moments, entry.moments) << name;
    }
  }
}
