// Recipes and the way from file to file.
#include "quant/Quantizer.h"

#include "ops/Reference.h"
#include "ops/test/RandomFloats.h"
#include "quant/Encoders.h"
#include "runtime/DecodeTables.h"
#include "runtime/GgufWriter.h"
#include "runtime/ImportanceMatrix.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

using namespace ds4;
using namespace ds4::quant;
using testing::HasSubstr;

namespace {

std::vector<std::byte> bytesOf(const std::vector<float> &values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Recipe recipe(std::string_view text) {
  Result<Recipe> parsed = parseRecipe(text, "recipe.toml");
  EXPECT_TRUE(parsed);
  return *parsed;
}

std::string parseError(std::string_view text) {
  Result<Recipe> parsed = parseRecipe(text, "recipe.toml");
  return parsed ? "" : parsed.error().text;
}

GgufTensor tensor(std::string name, WeightFormat format) {
  return {std::move(name), {64}, static_cast<uint32_t>(format), 0, 0, 0};
}

TEST(Recipe, TheFirstPatternThatMatchesDecides) {
  const Recipe r = recipe(R"(types = [
    ["blk.*.ffn_gate_inp.weight", "keep"],
    ["blk.*.weight", "q8_0"],
    ["output.weight", 101],
  ])");
  using enum WeightFormat;
  EXPECT_EQ(r.formatOf(tensor("blk.3.ffn_gate_inp.weight", f16)), f16);
  EXPECT_EQ(r.formatOf(tensor("blk.3.attn_kv.weight", f16)), q8_0);
  EXPECT_EQ(r.formatOf(tensor("output.weight", f16)), q4_0_rocmfp4_fast);
  EXPECT_EQ(r.formatOf(tensor("blk.0.attn_kv.bias", f16)), f16);
  EXPECT_EQ(r.formatOf(tensor("blk.3.ffn_tid2eid.weight", i32)), i32);
}

TEST(Recipe, RefusesFormatsWithoutAnEncoder) {
  EXPECT_TRUE(parseRecipe("types = [[\"*\", \"q8_0\"]]", "r"));
  for (const char *name : {"iq2_xxs", "q4_K", "q2_0_rocmfp2_affine", "i32"})
    EXPECT_FALSE(
        parseRecipe(fmt::format("types = [[\"*\", \"{}\"]]", name), "r"))
        << name;
}

TEST(Recipe, ErrorsNameTheLine) {
  EXPECT_THAT(parseError("types = ["), HasSubstr("recipe.toml:1"));
  EXPECT_THAT(parseError("file_type = 1"), HasSubstr("needs types"));
  EXPECT_THAT(parseError("\ntype = 1"), HasSubstr("recipe.toml:2: type"));
  EXPECT_THAT(parseError("types = [\n[\"*\"]]"), HasSubstr("recipe.toml:2"));
  EXPECT_THAT(parseError("types = [\n[\"*\",\n\"q9\"]]"),
              HasSubstr("recipe.toml:3: the type of \"*\""));
  EXPECT_THAT(parseError("types = [[\"*\", \"i32\"]]"), HasSubstr("\"*\""));
  EXPECT_THAT(parseError("types = [[\"*\", -1]]"), HasSubstr("\"*\""));
}

class QuantizerTest : public testing::Test {
protected:
  void SetUp() override {
    GgufWriter writer;
    writer.set("general.file_type", GgufValue::of(uint32_t{1}));
    writer.set("general.name", GgufValue::of("test"));
    test::Random random(1);
    norm = random.floats(64);
    ASSERT_TRUE(
        writer.addTensor("norm", {64}, WeightFormat::f32, bytesOf(norm)));
    weight = random.floats(64 * 100);
    ASSERT_TRUE(writer.addTensor("weight", {64, 100}, WeightFormat::f32,
                                 bytesOf(weight)));
    ASSERT_TRUE(writer.write(in));
  }

  Result<std::vector<TensorReport>> quantize(const std::string &rules,
                                             unsigned threads = 1) {
    Result<Gguf> gguf = Gguf::open(in);
    EXPECT_TRUE(gguf);
    QuantizeOptions options;
    options.recipe = recipe(rules);
    options.threads = threads;
    options.measure = true;
    return quantizeFile(*gguf, out, options);
  }

  std::string folder = testing::TempDir();
  std::string in = folder + "/quantizer_in.gguf";
  std::string out = folder + "/quantizer_out.gguf";
  std::vector<float> norm, weight;
};

TEST_F(QuantizerTest, WritesWhatTheRecipeSays) {
  const auto reports = quantize("file_type = 7\ntypes = [[\"we*\", \"q8_0\"]]");
  ASSERT_TRUE(reports) << reports.error().text;
  const Result<Gguf> gguf = Gguf::open(out);
  ASSERT_TRUE(gguf) << gguf.error().text;
  EXPECT_EQ(*gguf->u64("general.file_type"), 7u);
  EXPECT_EQ(*gguf->u64("general.quantization_version"), 2u);
  EXPECT_EQ(*gguf->string("general.name"), "test");

  const GgufTensor &kept = *gguf->findTensor("norm");
  EXPECT_EQ(kept.format(), WeightFormat::f32);
  const std::string bytes = readFile(out);
  EXPECT_EQ(std::memcmp(bytes.data() + kept.fileOffset, norm.data(), 256), 0);

  const GgufTensor &coded = *gguf->findTensor("weight");
  EXPECT_EQ(coded.format(), WeightFormat::q8_0);
  const std::span<const uint8_t> data(
      reinterpret_cast<const uint8_t *>(bytes.data()) + coded.fileOffset,
      coded.bytes);
  double error = 0, power = 0;
  for (uint64_t r = 0; r < 100; ++r) {
    const std::vector<float> row =
        ref::weightRow({WeightFormat::q8_0, data, 64}, r);
    for (uint64_t i = 0; i < 64; ++i) {
      EXPECT_NEAR(row[i], weight[64 * r + i], 0.02f);
      error += std::pow(double(weight[64 * r + i]) - row[i], 2);
      power += std::pow(double(weight[64 * r + i]), 2);
    }
  }
  EXPECT_NEAR((*reports)[1].relativeError(), error / power, 1e-12);
  EXPECT_EQ((*reports)[1].bitsPerWeight(), 8.5);
  EXPECT_EQ((*reports)[0].relativeError(), 0);
}

TEST_F(QuantizerTest, ABudgetGivesBitsToWhatNeedsThem) {
  // Tensor "easy" is exact in two bits.
  GgufWriter writer;
  ASSERT_TRUE(writer.addTensor("weight", {64, 100}, WeightFormat::f32,
                               bytesOf(weight)));
  std::vector<float> levels(64 * 200);
  for (size_t i = 0; i < levels.size(); ++i)
    levels[i] = static_cast<float>(i % 4) - 1;
  ASSERT_TRUE(
      writer.addTensor("easy", {64, 200}, WeightFormat::f32, bytesOf(levels)));
  ASSERT_TRUE(writer.addTensor("norm", {64}, WeightFormat::f32, bytesOf(norm)));
  ASSERT_TRUE(writer.write(in));
  const Result<Gguf> gguf = Gguf::open(in);
  QuantizeOptions options;
  options.recipe = recipe("types = [[\"norm\", \"f32\"], [\"*\", 104]]");
  ASSERT_TRUE(quantizeFile(*gguf, out, options));
  const uint64_t bytes = std::filesystem::file_size(out);
  options.budget = bytes;
  const auto reports = quantizeFile(*gguf, out, options);
  ASSERT_TRUE(reports) << reports.error().text;
  EXPECT_EQ((*reports)[0].to, WeightFormat::q4_0_rocmfp4_fast);
  EXPECT_EQ((*reports)[1].to, WeightFormat::q2_0_rocmfp2);
  EXPECT_EQ((*reports)[2].to, WeightFormat::f32);
  EXPECT_LE(std::filesystem::file_size(out), bytes);

  options.budget = bytes / 2;
  EXPECT_THAT(quantizeFile(*gguf, out, options).error().text,
              HasSubstr("bytes at least"));
  options.budget = 10;
  EXPECT_THAT(quantizeFile(*gguf, out, options).error().text,
              HasSubstr("less than the metadata"));
  options.recipe = recipe("types = [[\"*\", 106]]");
  EXPECT_THAT(quantizeFile(*gguf, out, options).error().text,
              HasSubstr("without learned levels"));
}

TEST_F(QuantizerTest, ABudgetThinksMoreOfTheHead) {
  GgufWriter writer;
  writer.set("deepseek4.block_count", GgufValue::of(uint32_t{2}));
  for (const char *name : {"weight", "output.weight"})
    ASSERT_TRUE(
        writer.addTensor(name, {64, 100}, WeightFormat::f32, bytesOf(weight)));
  ASSERT_TRUE(writer.write(in));
  const Result<Gguf> gguf = Gguf::open(in);
  QuantizeOptions options;
  options.recipe = recipe("types = [[\"weight\", 107], [\"*\", 104]]");
  ASSERT_TRUE(quantizeFile(*gguf, out, options));
  options.recipe = recipe("types = [[\"weight\", 104], [\"*\", 107]]");
  options.budget = std::filesystem::file_size(out);
  const auto reports = quantizeFile(*gguf, out, options);
  ASSERT_TRUE(reports) << reports.error().text;
  EXPECT_EQ((*reports)[0].to, WeightFormat::q2_0_rocmfp2);
  EXPECT_EQ((*reports)[1].to, WeightFormat::q3_0_rocmfpx);
}

TEST_F(QuantizerTest, ThreadsDoNotShow) {
  const std::string rules = "types = [[\"we*\", 107]]";
  const auto one = quantize(rules, 1);
  const std::string bytes = readFile(out);
  const auto four = quantize(rules, 4);
  ASSERT_TRUE(one && four);
  EXPECT_EQ(readFile(out), bytes);
  EXPECT_EQ((*one)[1].error, (*four)[1].error);
}

TEST_F(QuantizerTest, RefusesARowLength) {
  const auto reports = quantize("types = [[\"we*\", \"q6_K\"]]");
  ASSERT_FALSE(reports);
  EXPECT_THAT(reports.error().text, HasSubstr("weight"));
}

TEST_F(QuantizerTest, RefusesValuesThatAreNotFinite) {
  weight[640] = NAN;
  GgufWriter writer;
  ASSERT_TRUE(writer.addTensor("weight", {64, 100}, WeightFormat::f32,
                               bytesOf(weight)));
  ASSERT_TRUE(writer.write(in));
  const auto reports = quantize("types = [[\"*\", 101]]");
  ASSERT_FALSE(reports);
  EXPECT_THAT(reports.error().text, HasSubstr("'weight' has a value"));
}

TEST_F(QuantizerTest, RefusesValuesThatAScaleCannotReach) {
  weight[640] = 1e9f;
  GgufWriter writer;
  ASSERT_TRUE(writer.addTensor("weight", {64, 100}, WeightFormat::f32,
                               bytesOf(weight)));
  ASSERT_TRUE(writer.write(in));
  for (const char *format : {"f16", "q8_0"}) {
    const auto reports =
        quantize(std::string("types = [[\"*\", \"") + format + "\"]]");
    ASSERT_FALSE(reports) << format;
    EXPECT_THAT(reports.error().text, HasSubstr("too large"));
  }
  EXPECT_TRUE(quantize("types = [[\"*\", \"bf16\"]]"));
}

/// A file with expert tensors of one layer.
class ExpertsTest : public QuantizerTest {
protected:
  static constexpr uint64_t kColumns = 128, kRows = 16, kExperts = 3;

  void SetUp() override {
    test::Random random(2);
    GgufWriter writer;
    writer.set("general.architecture", GgufValue::of("deepseek4"));
    writer.set("deepseek4.block_count", GgufValue::of(uint32_t{1}));
    for (const char *name : kNames) {
      std::vector<float> &values = weights[name];
      values = random.floats(kColumns * kRows * kExperts);
      for (float &x : values)
        x = x * x * x;
      ASSERT_TRUE(writer.addTensor(name, {kColumns, kRows, kExperts},
                                   WeightFormat::f32, bytesOf(values)));
    }
    ASSERT_TRUE(writer.write(in));
  }

  static constexpr const char *kNames[] = {"blk.0.ffn_gate_exps.weight",
                                           "blk.0.ffn_up_exps.weight",
                                           "blk.0.ffn_down_exps.weight"};
  std::map<std::string, std::vector<float>> weights;
};

TEST_F(ExpertsTest, BooksCanBeReadBack) {
  const auto reports = quantize("types = [[\"*down*\", 105], [\"*\", 106]]");
  ASSERT_TRUE(reports) << reports.error().text;
  const Result<Gguf> gguf = Gguf::open(out);
  ASSERT_TRUE(gguf);
  const Result<DecodeTables> tables = readDecodeTables(*gguf);
  ASSERT_TRUE(tables) << tables.error().text;
  const std::string bytes = readFile(out);
  for (const TensorReport &report : *reports) {
    const GgufTensor &tensor = *gguf->findTensor(report.name);
    const DecodeTable &table = tables->at(report.name);
    ASSERT_EQ(table.experts, kExperts);
    const std::span<const uint8_t> data(
        reinterpret_cast<const uint8_t *>(bytes.data()) + tensor.fileOffset,
        tensor.bytes);
    double error = 0, power = 0;
    for (uint64_t r = 0; r < tensor.rows(); ++r) {
      const std::vector<float> row =
          ref::weightRow({report.to, data, kColumns, table.books, kRows}, r);
      for (uint64_t i = 0; i < kColumns; ++i) {
        const double x = weights[report.name][r * kColumns + i];
        error += (x - row[i]) * (x - row[i]);
        power += x * x;
      }
    }
    EXPECT_NEAR(report.relativeError(), error / power, 1e-9);
    EXPECT_LT(error / power, report.name == kNames[2] ? 0.05 : 0.25);
  }
}

TEST_F(QuantizerTest, BooksOfAttentionMatricesCanBeReadBack) {
  test::Random random(3);
  GgufWriter writer;
  writer.set("deepseek4.block_count", GgufValue::of(uint32_t{2}));
  writer.set("deepseek4.attention.output_group_count",
             GgufValue::of(uint32_t{4}));
  std::map<std::string, std::vector<float>> weights;
  for (const char *name : {"blk.0.attn_q_a.weight", "blk.0.attn_q_b.weight",
                           "blk.0.attn_kv.weight", "blk.1.attn_output_a.weight",
                           "blk.1.attn_output_b.weight"}) {
    weights[name] = random.floats(128 * 16);
    ASSERT_TRUE(writer.addTensor(name, {128, 16}, WeightFormat::f32,
                                 bytesOf(weights[name])));
  }
  ASSERT_TRUE(writer.write(in));
  const auto reports = quantize("types = [[\"*output*\", 105], [\"*\", 106]]");
  ASSERT_TRUE(reports) << reports.error().text;
  const Result<Gguf> gguf = Gguf::open(out);
  ASSERT_TRUE(gguf);
  const Result<DecodeTables> tables = readDecodeTables(*gguf);
  ASSERT_TRUE(tables) << tables.error().text;
  ASSERT_EQ(tables->size(), weights.size());
  const std::string bytes = readFile(out);
  for (const TensorReport &report : *reports) {
    const GgufTensor &tensor = *gguf->findTensor(report.name);
    const std::span<const uint8_t> data(
        reinterpret_cast<const uint8_t *>(bytes.data()) + tensor.fileOffset,
        tensor.bytes);
    double error = 0, power = 0;
    for (uint64_t r = 0; r < 16; ++r) {
      const std::vector<float> row = ref::weightRow(
          {report.to, data, 128, tables->at(report.name).books, 0}, r);
      for (uint64_t i = 0; i < 128; ++i) {
        const double x = weights[report.name][r * 128 + i];
        error += (x - row[i]) * (x - row[i]);
        power += x * x;
      }
    }
    EXPECT_LT(error / power,
              report.to == WeightFormat::q3_1_rocmfp3_mix ? 0.05 : 0.25);
  }
  // nslices of the fourth entry: behind the header and three entries of 44
  // bytes, its fourth word.
  const auto table = gguf->byteArray("deepseek4.dmix.sidecar");
  ASSERT_TRUE(table);
  EXPECT_EQ((*table)[16 + 3 * 44 + 3 * 4], 4);
}

TEST_F(QuantizerTest, RowsOfOutputAMustDivideIntoItsGroups) {
  GgufWriter writer;
  writer.set("deepseek4.attention.output_group_count",
             GgufValue::of(uint32_t{5}));
  const std::vector<float> values(128 * 16, 1.0f);
  ASSERT_TRUE(writer.addTensor("blk.0.attn_output_a.weight", {128, 16},
                               WeightFormat::f32, bytesOf(values)));
  ASSERT_TRUE(writer.write(in));
  const auto reports = quantize("types = [[\"*\", 105]]");
  ASSERT_FALSE(reports);
  EXPECT_THAT(reports.error().text, HasSubstr("no multiple of its 5 groups"));
}

TEST_F(ExpertsTest, TablesHaveNoPlaceForGatesOfThreeBits) {
  const auto reports = quantize("types = [[\"*gate*\", 105]]");
  ASSERT_FALSE(reports);
  EXPECT_THAT(reports.error().text, HasSubstr("no decode table"));
}

TEST_F(ExpertsTest, ImportanceOfEachExpertDecides) {
  // Expert 1 sees its first half alone; expert 2 sees nothing.
  Observation it;
  it.weight = kNames[2];
  it.width = kColumns;
  it.rowElements = kColumns;
  it.experts = kExperts;
  it.used = 1;
  std::vector<float> x(2 * kColumns, 1.0f);
  std::fill(x.begin() + kColumns / 2, x.begin() + kColumns, 0.0f);
  ImportanceMatrix collected;
  collected.add(it, x, std::vector<int32_t>{1, 0});
  const std::string path = folder + "/quantizer.imatrix";
  ASSERT_TRUE(collected.write(path, {}));
  const Result<Imatrix> imatrix = Imatrix::open(path);
  ASSERT_TRUE(imatrix);

  const auto run = [&](const Imatrix *matrix) {
    const Result<Gguf> gguf = Gguf::open(in);
    QuantizeOptions options;
    options.recipe = recipe("types = [[\"*\", 104]]");
    options.imatrix = matrix;
    EXPECT_TRUE(quantizeFile(*gguf, out, options));
    const Result<Gguf> written = Gguf::open(out);
    const GgufTensor &tensor = *written->findTensor(kNames[2]);
    return readFile(out).substr(tensor.fileOffset, tensor.bytes);
  };
  const std::string plain = run(nullptr), weighted = run(&*imatrix);
  const size_t expertBytes = plain.size() / kExperts;
  std::vector<float> importance(kColumns, 0.0f);
  std::fill(importance.begin(), importance.begin() + kColumns / 2, 1.0f);
  const uint64_t rowBytes = expertBytes / kRows;
  for (uint64_t r = 0; r < kRows; ++r) {
    const Floats row =
        Floats(weights[kNames[2]]).subspan((kRows + r) * kColumns, kColumns);
    std::string want(rowBytes, '\0');
    encodeRow(WeightFormat::q3_0_rocmfpx, row, importance,
              reinterpret_cast<uint8_t *>(want.data()));
    EXPECT_EQ(weighted.substr(expertBytes + r * rowBytes, rowBytes), want);
  }
  EXPECT_NE(weighted.substr(expertBytes, expertBytes),
            plain.substr(expertBytes, expertBytes));
  EXPECT_EQ(weighted.substr(2 * expertBytes), plain.substr(2 * expertBytes));
}

} // namespace
