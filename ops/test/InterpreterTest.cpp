// The interpreter over the small model of this repository: the numerics
// contract (batch invariance, rollback) holds for the oracle itself, and what
// does not fit is refused.
#include "ops/Interpreter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "models/DeepSeekV4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

using namespace ds4;
using testing::HasSubstr;

namespace {

/// Text-like: repeats, so that experts and windows differ between tokens.
std::vector<int32_t> tokensOfTest(size_t count) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<int32_t>((i * 37 + i * i * 11) % 2048));
  return tokens;
}

class InterpreterTest : public testing::Test {
protected:
  void SetUp() override {
    Result<Gguf> file =
        Gguf::open(DS4_SOURCE_DIR "/models/ds4-tiny/ds4-tiny-strix.gguf");
    ASSERT_TRUE(file) << file.error().text;
    gguf.emplace(std::move(*file));
    Profile profile;
    profile.context = 256;
    profile.prefillChunk = 16;
    profile.logits = "all";
    profile.tracePoints = true;
    Result<mlir::OwningOpRef<mlir::ModuleOp>> built =
        buildDeepSeekV4(*gguf, profile, &context);
    ASSERT_TRUE(built) << built.error().text;
    module = std::move(*built);
  }

  std::unique_ptr<Interpreter> open() {
    auto result = Interpreter::open(*module, *gguf);
    EXPECT_TRUE(result) << result.error().text;
    return std::move(*result);
  }

  /// Logits of all tokens, cut into steps of these sizes, repeating.
  std::vector<float> logits(std::span<const int32_t> tokens,
                            std::vector<uint32_t> sizes) {
    const auto interpreter = open();
    std::vector<float> all;
    for (size_t first = 0, i = 0; first < tokens.size(); ++i) {
      const auto count = static_cast<uint32_t>(
          std::min<size_t>(sizes[i % sizes.size()], tokens.size() - first));
      const Result<StepResult> result =
          interpreter->interpretStep(count == 1 ? "decode" : "prefill",
                                     tokens.subspan(first, count), count);
      EXPECT_TRUE(result) << result.error().text;
      all.insert(all.end(), result->logits.begin(), result->logits.end());
      first += count;
    }
    return all;
  }

  mlir::MLIRContext context;
  std::optional<Gguf> gguf;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

bool sameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

TEST_F(InterpreterTest, StepsOfAnySizeGiveTheSameBits) {
  // 40 tokens pass the window of 32, ten compressor windows and the top-k.
  const std::vector<int32_t> tokens = tokensOfTest(40);
  const std::vector<float> decoded = logits(tokens, {1});
  EXPECT_TRUE(sameBits(decoded, logits(tokens, {16})));
  EXPECT_TRUE(sameBits(decoded, logits(tokens, {3, 1, 7, 2, 5})));
}

TEST_F(InterpreterTest, RollbackForgetsWrongTokens) {
  const std::vector<int32_t> tokens = tokensOfTest(24);
  const auto interpreter = open();
  ASSERT_TRUE(interpreter->interpretStep("prefill", {tokens.data(), 14}, 0));
  const int32_t wrong[] = {5, 6, 7, 8};
  ASSERT_TRUE(interpreter->interpretStep("prefill", wrong, 4));
  EXPECT_EQ(interpreter->position(), 18u);
  interpreter->rollback(14);
  const Result<StepResult> result =
      interpreter->interpretStep("prefill", {tokens.data() + 14, 10}, 1);
  ASSERT_TRUE(result) << result.error().text;
  const std::vector<float> straight = logits(tokens, {12});
  EXPECT_TRUE(sameBits(result->logits, std::span(straight).last(2048)));
}

TEST_F(InterpreterTest, GivesTracesAndStates) {
  const auto interpreter = open();
  const Result<StepResult> result =
      interpreter->interpretStep("prefill", tokensOfTest(5), 2);
  ASSERT_TRUE(result) << result.error().text;
  EXPECT_EQ(result->logits.size(), 2u * 2048);
  EXPECT_EQ(result->argmax.size(), 2u);
  EXPECT_EQ(result->traces.at("layer5.streams").size(), 5u * 4 * 256);
  EXPECT_EQ(result->traces.at("layer0.attn_in").size(), 5u * 256);
  const ref::State *ring = interpreter->state("blk.0.raw_ring");
  ASSERT_TRUE(ring);
  EXPECT_EQ(ring->storage, ref::RowStorage::fp8);
  EXPECT_EQ(interpreter->state("blk.0.no_such"), nullptr);
}

TEST_F(InterpreterTest, RefusesWhatDoesNotFit) {
  const auto interpreter = open();
  const auto errorOf = [&](std::string_view phase, std::vector<int32_t> tokens,
                           uint32_t outputs) {
    const Result<StepResult> result =
        interpreter->interpretStep(phase, tokens, outputs);
    EXPECT_FALSE(result);
    return result ? "" : result.error().text;
  };
  EXPECT_THAT(errorOf("draft", {1}, 1), HasSubstr("no function @draft"));
  EXPECT_THAT(errorOf("decode", {1, 2}, 1), HasSubstr("takes 1 to 1 tokens"));
  EXPECT_THAT(errorOf("prefill", {1, 2}, 3), HasSubstr("asked: 2 and 3"));
  EXPECT_THAT(errorOf("decode", {2048}, 1),
              HasSubstr("token 2048 is not in the vocabulary of 2048"));
  EXPECT_EQ(interpreter->position(), 0u) << "a refused step changes nothing";
}

TEST_F(InterpreterTest, RefusesAFileThatTheGraphWasNotBuiltFor) {
  module->walk([&](mlir::Operation *op) {
    if (auto name = op->getAttrOfType<mlir::StringAttr>("name");
        name && name.getValue() == "output_norm.weight")
      op->setAttr("name", mlir::StringAttr::get(&context, "output.weight"));
  });
  const auto result = Interpreter::open(*module, *gguf);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().text,
              HasSubstr("the graph was built for 256 f32"));
}

} // namespace
