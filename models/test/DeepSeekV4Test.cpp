// The graph builder on the demo model: what the graph holds for which profile,
// and how files with missing or mis-shaped parts are refused.
#include "models/DeepSeekV4.h"
#include "ir/Ds4Ops.h"
#include "models/WeightMap.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <gtest/gtest.h>

using namespace ds4;
using namespace mlir;

namespace {
class DeepSeekV4 : public testing::Test {
protected:
  void SetUp() override {
    Result<Gguf> opened =
        Gguf::open(DS4_SOURCE_DIR "/models/ds4-tiny/ds4-tiny-strix.gguf");
    ASSERT_TRUE(opened) << opened.error().text;
    gguf.emplace(std::move(*opened));
    profile.simulate = false;
    profile.kv = "f16";
    profile.prefillChunk = 64;
  }
  template <typename OpT> int count(ModuleOp module, StringRef function) {
    int found = 0;
    module.lookupSymbol<func::FuncOp>(function).walk([&](OpT) { ++found; });
    return found;
  }

  MLIRContext context;
  std::optional<Gguf> gguf;
  Profile profile;
};
} // namespace

TEST_F(DeepSeekV4, BuildsEveryKindOfLayer) {
  auto module = buildDeepSeekV4(*gguf, profile, &context);
  ASSERT_TRUE(module) << module.error().text;
  for (StringRef phase : {"decode", "prefill"}) {
    EXPECT_EQ(count<ir::AttendOp>(**module, phase), 6);
    EXPECT_EQ(count<ir::CompressOp>(**module, phase), 6) << "2 HCA, 2x2 CSA";
    EXPECT_EQ(count<ir::TopKOp>(**module, phase), 2);
    EXPECT_EQ(count<ir::HashRouteOp>(**module, phase), 3);
    EXPECT_EQ(count<ir::RouteOp>(**module, phase), 3);
    EXPECT_EQ(count<ir::SimulateOp>(**module, phase), 0);
    EXPECT_EQ(count<ir::TraceOp>(**module, phase), 0);
    EXPECT_EQ(count<ir::ObserveOp>(**module, phase), 0);
  }
}

TEST_F(DeepSeekV4, SimulationAndTracePointsAreTheProfiles) {
  profile.simulate = true;
  profile.kv = "fp8";
  profile.tracePoints = true;
  auto module = buildDeepSeekV4(*gguf, profile, &context);
  ASSERT_TRUE(module) << module.error().text;
  // Raw rows of 6 layers, compressed rows of 4, index rows and queries of 2.
  EXPECT_EQ(count<ir::SimulateOp>(**module, "decode"), 6 + 4 + 2 * 2);
  EXPECT_EQ(count<ir::TraceOp>(**module, "decode"), 6 * 5);
}

TEST_F(DeepSeekV4, ObservesTheInputOfEveryLinear) {
  profile.imatrix = true;
  auto module = buildDeepSeekV4(*gguf, profile, &context);
  ASSERT_TRUE(module) << module.error().text;
  for (StringRef phase : {"decode", "prefill"})
    EXPECT_EQ(count<ir::ObserveOp>(**module, phase),
              count<ir::LinearOp>(**module, phase) +
                  count<ir::GroupedLinearOp>(**module, phase) +
                  2 * count<ir::ExpertGateUpOp>(**module, phase) +
                  count<ir::ExpertDownOp>(**module, phase) +
                  count<ir::HcPreOp>(**module, phase) +
                  count<ir::HeadCollapseOp>(**module, phase));
}

TEST_F(DeepSeekV4, ReducedExpertsReachEveryLayer) {
  profile.experts = 2;
  auto module = buildDeepSeekV4(*gguf, profile, &context);
  ASSERT_TRUE(module) << module.error().text;
  (**module)->walk([](ir::CombineOp op) {
    EXPECT_EQ(ir::activationShape(op.getWeights().getType())[1], 2);
  });
  profile.experts = 4;
  auto refused = buildDeepSeekV4(*gguf, profile, &context);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("experts = 4 exceeds the 3"),
            std::string::npos);
}

TEST_F(DeepSeekV4, OutputRowsFollowTheProfile) {
  auto rows = [&] {
    auto module = buildDeepSeekV4(*gguf, profile, &context);
    auto func = (*module)->lookupSymbol<func::FuncOp>("prefill");
    return cast<RankedTensorType>(func.getResultTypes()[0]).getDimSize(0);
  };
  EXPECT_EQ(rows(), 1);
  profile.logits = "all";
  EXPECT_EQ(rows(), 64);
}

TEST_F(DeepSeekV4, MissingTensorIsNamedWithItsShape) {
  Hparams hparams = *readHparams(*gguf);
  hparams.layers = 7;
  hparams.compressRatios.push_back(0);
  Result<ModelWeights> weights = mapWeights(*gguf, hparams);
  ASSERT_FALSE(weights);
  EXPECT_NE(weights.error().text.find(
                "tensor 'blk.6.hc_attn_fn.weight' is missing, expected [24, "
                "1024]"),
            std::string::npos)
      << weights.error().text;
}

TEST_F(DeepSeekV4, MisshapedTensorIsNamedWithBothShapes) {
  Hparams hparams = *readHparams(*gguf);
  hparams.qLoraRank = 128;
  Result<ModelWeights> weights = mapWeights(*gguf, hparams);
  ASSERT_FALSE(weights);
  EXPECT_NE(weights.error().text.find("'blk.0.attn_q_a.weight' is [256, 256], "
                                      "expected [128, 256]"),
            std::string::npos)
      << weights.error().text;
}

TEST_F(DeepSeekV4, ContextBeyondTheModelIsRefused) {
  profile.context = 1048576;
  EXPECT_TRUE(buildDeepSeekV4(*gguf, profile, &context));
  profile.context = 64;
  auto refused = buildDeepSeekV4(*gguf, profile, &context);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("shorter than a compressor window"),
            std::string::npos);
}
