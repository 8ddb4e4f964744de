// GoldCheckTest.cpp - a fake model whose best next token is the last one plus
// 1, against dumps that agree with it or differ in one place.
#include "runtime/GoldCheck.h"

#include "runtime/GgufWriter.h"
#include "runtime/test/FakeDevice.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <unistd.h>

namespace ds4::test {
namespace {

constexpr uint32_t kVocab = 8;

std::vector<float> modelLogits(int32_t token, int32_t position) {
  std::vector<float> row(kVocab);
  for (uint32_t v = 0; v < kVocab; ++v)
    row[v] = 0.25f * static_cast<float>((v * 3 + position) % 5);
  row[(token + 1) % kVocab] = 4;
  return row;
}

/// Two values a token.
std::vector<float> modelActivation(int32_t token, int32_t position) {
  return {static_cast<float>(token + 1), static_cast<float>(-position)};
}

struct Tensor {
  std::string name, dtype;
  std::vector<uint64_t> shape;
  std::string bytes;
};

template <typename T> std::string bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()),
          values.size() * sizeof(T)};
}

class GoldCheckTest : public ::testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() /
             ("gold_check_test_" + std::to_string(::getpid()));
    std::filesystem::create_directory(folder);
    for (uint32_t position = 0; position < ids.size(); ++position) {
      auto row = modelLogits(ids[position], static_cast<int32_t>(position));
      logits.insert(logits.end(), row.begin(), row.end());
    }
    for (uint32_t position : captures)
      for (float value : modelActivation(ids[position], position))
        activation.push_back(value);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::filesystem::path writeDump() {
    std::vector<Tensor> tensors{
        {"a.ids", "int32", {ids.size()}, bytesOf(ids)},
        {"a.logits",
         "float32",
         {logits.size() / kVocab, kVocab},
         bytesOf(logits)},
        {"a.greedy", "int32", {greedy.size()}, bytesOf(greedy)},
        {"a.layer0.attn_in", "float32", {2, 2}, bytesOf(activation)},
        {"a.layer1.streams", "float32", {2, 1, 2}, bytesOf(activation)}};
    std::string table, data;
    for (const Tensor &tensor : tensors) {
      table += fmt::format("{}{{\"name\": \"{}\", \"dtype\": \"{}\", "
                           "\"shape\": [",
                           table.empty() ? "" : ",", tensor.name, tensor.dtype);
      for (size_t i = 0; i < tensor.shape.size(); ++i)
        table += fmt::format("{}{}", i ? "," : "", tensor.shape[i]);
      table += fmt::format("], \"offset\": {}}}", data.size());
      data += tensor.bytes;
    }
    std::filesystem::path json = folder / "gold.json";
    std::ofstream(json) << "{\"prompts\": {\"a\": {\"logit_positions\": "
                           "\"all\", \"capture_positions\": [1, 5]}}, "
                           "\"tensors\": ["
                        << table << "]}";
    std::ofstream(folder / "gold.bin", std::ios::binary) << data;
    return json;
  }

  std::unique_ptr<Session> openSession(bool traces = true) {
    std::filesystem::path path = folder / "empty.gguf";
    GgufWriter writer;
    EXPECT_TRUE(writer.write(path));
    Result<Gguf> file = Gguf::open(path);
    EXPECT_TRUE(file) << file.error().text;
    Bundle bundle;
    bundle.manifest.fingerprint = file->fingerprint();
    bundle.manifest.vocab = kVocab;
    bundle.manifest.context = 32;
    bundle.manifest.objects.push_back({"fake", "", "o", "", "", ""});
    Function function;
    function.name = "prefill";
    function.capacity = 4;
    function.outputs = 4;
    // Arena: logits, argmax, activations.
    uint64_t argmaxAt = 4 * kVocab * 4, rowsAt = argmaxAt + 16;
    function.arenaBytes = rowsAt + 4 * 2 * 4;
    function.logits = {ArgKind::arena, {}, 0};
    function.argmax = {ArgKind::arena, {}, argmaxAt};
    Arg rows{ArgKind::arena, {}, rowsAt};
    function.launches = {
        {"embed",
         "embed",
         0,
         {1, 4},
         32,
         1,
         {{ArgKind::tokens, {}, 0}, rows, {ArgKind::step, {}, 0}},
         0},
        {"head",
         "linear",
         -1,
         {1, 4},
         32,
         0,
         {{ArgKind::tokens, {}, 0},
          {ArgKind::arena, {}, 0},
          {ArgKind::step, {}, 0}},
         0}};
    if (traces)
      function.traces = {{"layer0.attn_in", 0, rows, 2, 1},
                         {"layer1.streams", 0, rows, 2, 1}};
    bundle.plan.functions = {function};
    std::map<std::string, FakeDevice::Work> works;
    works["embed"] = [](std::span<void *const> args, uint32_t count) {
      const auto *tokens = static_cast<const int32_t *>(args[0]);
      const Step &step = *static_cast<const Step *>(args[2]);
      for (uint32_t i = 0; i < count; ++i) {
        auto row =
            modelActivation(tokens[i], step.start + static_cast<int32_t>(i));
        std::ranges::copy(row, static_cast<float *>(args[1]) + i * 2);
      }
    };
    works["head"] = [](std::span<void *const> args, uint32_t count) {
      const auto *tokens = static_cast<const int32_t *>(args[0]);
      const Step &step = *static_cast<const Step *>(args[2]);
      for (uint32_t i = 0; i < count; ++i) {
        int32_t token = step.count - step.outputs + static_cast<int32_t>(i);
        auto row = modelLogits(tokens[token], step.start + token);
        std::ranges::copy(row, static_cast<float *>(args[1]) + i * kVocab);
      }
    };
    Result<std::unique_ptr<Session>> session = Session::open(
        bundle, *file,
        std::make_unique<FakeDevice>(std::make_shared<DeviceLog>(), works),
        SessionOptions());
    EXPECT_TRUE(session) << session.error().text;
    return std::move(*session);
  }

  GoldReport check(bool traces = true) {
    Result<GoldDump> dump = readGoldDump(writeDump());
    EXPECT_TRUE(dump) << dump.error().text;
    auto session = openSession(traces);
    Result<GoldReport> report = checkGold(*session, *dump, GoldOptions());
    EXPECT_TRUE(report) << report.error().text;
    return *report;
  }
  void expectFirst(const std::string &text) {
    GoldReport report = check();
    EXPECT_FALSE(report.good());
    EXPECT_NE(goldReportText(report).find(
                  "first difference beyond 1.0e-03: a: " + text),
              std::string::npos)
        << goldReportText(report);
  }

  std::filesystem::path folder;
  std::vector<int32_t> ids{3, 1, 4, 1, 5, 2, 6};
  std::vector<uint32_t> captures{1, 5};
  std::vector<float> logits, activation;
  std::vector<int32_t> greedy{7, 0, 1, 2};
};

TEST_F(GoldCheckTest, AgreesWithItself) {
  GoldReport report = check();
  EXPECT_TRUE(report.good());
  ASSERT_EQ(report.prompts.size(), 1u);
  const GoldPromptReport &prompt = report.prompts[0];
  EXPECT_EQ(prompt.rows, 7u);
  EXPECT_EQ(prompt.top1, 7u);
  EXPECT_EQ(prompt.maxLogitDifference, 0);
  EXPECT_EQ(prompt.meanKl, 0);
  EXPECT_EQ(prompt.greedyEqual, 4u);
  ASSERT_EQ(prompt.activations.size(), 2u);
  EXPECT_EQ(prompt.activations[1].name, "layer1.streams");
  EXPECT_NE(goldReportText(report).find("all within 1.0e-03"),
            std::string::npos);
}

TEST_F(GoldCheckTest, MeasuresLogits) {
  logits[3 * kVocab + 2] += 0.5f;
  GoldReport report = check();
  EXPECT_EQ(report.prompts[0].maxLogitDifference, 0.5);
  EXPECT_EQ(report.prompts[0].maxLogitPosition, 3u);
  EXPECT_GT(report.prompts[0].meanKl, 1e-4);
  EXPECT_LT(report.prompts[0].meanKl, 0.1);
  EXPECT_EQ(report.prompts[0].top1, 7u);
  expectFirst("logits differ by 5.00e-01 at position 3");
}

TEST_F(GoldCheckTest, KlIsThatOfGoldAgainstOurs) {
  // All mass of gold on our best token, whose share of ours is known.
  for (uint32_t v = 0; v < kVocab; ++v)
    if (v != 4)
      logits[v] = -1e9f;
  double sum = 0;
  for (float value : modelLogits(3, 0))
    sum += std::exp(double(value) - 4);
  EXPECT_NEAR(check().prompts[0].meanKl, std::log(sum) / 7, 1e-9);
}

TEST_F(GoldCheckTest, NamesTheFirstActivationInOrderOfComputation) {
  logits[0] += 1; // later than any activation
  activation[2] *= 1.5f;
  // Position 5: values 3 and -5; gold's 3 became 4.5.
  expectFirst("layer0.attn_in differs by 3.00e-01 (relative) at position 5");
}

TEST_F(GoldCheckTest, GreedyMayDifferWhereLogitsAlmostTie) {
  greedy[2] = 5;
  GoldReport report = check();
  EXPECT_EQ(report.prompts[0].greedyEqual, 2u);
  EXPECT_GT(report.prompts[0].greedyMargin, 1);
  expectFirst("greedy token 2 differs");
  report.limits.tolerance = report.prompts[0].greedyMargin;
  EXPECT_TRUE(report.good());
}

TEST_F(GoldCheckTest, MayJudgeLogitsByKl) {
  logits[3 * kVocab + 2] += 0.5f;
  greedy[2] = 5;
  GoldReport report = check();
  report.limits.kl = report.prompts[0].meanKl * 1.01;
  EXPECT_TRUE(report.good());
  report.limits.kl = report.prompts[0].meanKl * 0.99;
  EXPECT_FALSE(report.good());
  EXPECT_NE(goldReportText(report).find("a: mean KL of the logits is"),
            std::string::npos);
  // Activations are held to their tolerance all the same.
  report.limits.kl = 1;
  report.prompts[0].activations[1].relative = 1;
  EXPECT_FALSE(report.good());
}

TEST_F(GoldCheckTest, NansAreDifferences) {
  logits[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(check().good());
}

TEST_F(GoldCheckTest, SaysHowToGetTracePoints) {
  GoldReport report = check(/*traces=*/false);
  EXPECT_TRUE(report.good());
  EXPECT_TRUE(report.prompts[0].activations.empty());
  EXPECT_NE(goldReportText(report).find("ds4c --trace-points=true"),
            std::string::npos);
}

TEST_F(GoldCheckTest, RefusesWhatIsNoDump) {
  auto text = [&] {
    Result<GoldDump> dump = readGoldDump(folder / "gold.json");
    EXPECT_FALSE(dump);
    return dump ? std::string() : dump.error().text;
  };
  EXPECT_NE(text().find("cannot open"), std::string::npos);
  writeDump();
  std::filesystem::resize_file(folder / "gold.bin", 40);
  EXPECT_NE(text().find("ends after the 40 bytes of the .bin file"),
            std::string::npos);
  for (const char *json :
       {"{", "[]", "{\"tensors\": 3}", "{\"prompts\": {\"a\": {}}}",
        "{\"tensors\": [], \"prompts\": {\"a\": {}}}"}) {
    std::ofstream(folder / "gold.json") << json;
    EXPECT_NE(text().find("not a reference dump"), std::string::npos) << json;
  }
  ids.push_back(1); // one row of logits is missing
  writeDump();
  EXPECT_FALSE(readGoldDump(folder / "gold.json"));
}

} // namespace
} // namespace ds4::test
