// DeepSeek V4 Flash at its real size, from its shape: the graph builds, every
// op has a kernel, and bytes add up.
#include "codegen/PlanWriter.h"
#include "ir/Ds4Ops.h"
#include "models/DeepSeekV4.h"
#include "models/Shape.h"
#include "passes/Pipeline.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

using namespace ds4;

TEST(Flash, PlansTheRealModel) {
  Result<Gguf> gguf = openShape("v4-flash-strix");
  ASSERT_TRUE(gguf) << gguf.error().text;

  Profile profile;
  profile.context = 65536;
  profile.prefillChunk = 2048;
  mlir::MLIRContext context;
  auto module = buildDeepSeekV4(*gguf, profile, &context);
  ASSERT_TRUE(module) << module.error().text;
  mlir::PassManager passes(&context);
  addFusionPasses(passes);
  addPlanningPasses(passes);
  ASSERT_TRUE(succeeded(passes.run(**module)));
  auto emitted = codegen::emitPlan(**module);
  ASSERT_TRUE(succeeded(emitted)) << "an op without a kernel";
  const Plan &plan = emitted->plan;

  EXPECT_EQ(plan.weights.size(), 1328u);
  uint64_t weightBytes = 0;
  for (const WeightDesc &weight : plan.weights)
    weightBytes += weight.bytes;
  EXPECT_EQ(weightBytes,
            std::accumulate(
                gguf->tensors().begin(), gguf->tensors().end(), uint64_t(0),
                [](uint64_t sum, const auto &t) { return sum + t.bytes; }));

  // Every int8 product has its rows packed; matrices that f32 activations meet
  // stay as in the file, and no byte is added.
  std::map<WeightLayout, std::map<WeightFormat, int>> layouts;
  uint64_t onDevice = 0;
  for (const WeightDesc &weight : plan.weights) {
    ++layouts[weight.layout][weight.format];
    onDevice += deviceBytes(weight);
  }
  EXPECT_EQ(onDevice, weightBytes);
  using enum WeightFormat;
  const std::map<WeightFormat, int> packed = {
      {q4_0_rocmfp4_fast, 366}, {q3_0_rocmfpx, 43}, {q2_0_rocmfp2, 86}};
  EXPECT_EQ(layouts[WeightLayout::lanes], packed);
  EXPECT_EQ(layouts[WeightLayout::file].contains(q2_0_rocmfp2), false);

  // A token reads everything but the experts that it does not use and the
  // embedding's other rows: 6.00 GB of the file.
  const Function *decode = plan.find("decode");
  ASSERT_NE(decode, nullptr);
  uint64_t perToken = 0;
  for (const Launch &launch : decode->launches)
    perToken += launch.weightBytesPerToken;
  EXPECT_GT(perToken, 5'900'000'000u);
  EXPECT_LT(perToken, 6'200'000'000u);

  // FP8 raw and compressed rows and FP4 index rows at 65,536 positions:
  // docs/model.md derives 252 MiB for the whole state.
  uint64_t stateBytes = 0;
  for (const StateDesc &state : plan.states)
    stateBytes += state.rows * state.rowBytes;
  EXPECT_NEAR(double(stateBytes) / (1 << 20), 252, 1);
}
