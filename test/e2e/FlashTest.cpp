// DeepSeek V4 Flash at its real size, from a header that is made here: the
// graph builds, every op has a kernel, and bytes add up to the published
// files' (102,315,302,752 of tensor data in the strix recipe).
#include "codegen/PlanWriter.h"
#include "ir/Ds4Ops.h"
#include "models/DeepSeekV4.h"
#include "passes/Pipeline.h"
#include "runtime/GgufWriter.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

using namespace ds4;

namespace {
constexpr uint64_t kLayers = 43;

/// Collects tensors in the strix recipe's formats.
class FlashFile {
public:
  GgufWriter writer;

  void add(const std::string &name, std::vector<uint64_t> dims,
           WeightFormat format) {
    Status added = writer.declareTensor(name, std::move(dims), format);
    ASSERT_TRUE(added) << added.error().text;
  }
  void dense(const std::string &name, uint64_t in, uint64_t out) {
    add(name + ".weight", {in, out}, WeightFormat::q4_0_rocmfp4_fast);
  }
  void vector(const std::string &name, uint64_t size) {
    add(name, {size}, WeightFormat::f32);
  }
  void u32(const char *key, uint32_t value) {
    writer.set(std::string("deepseek4.") + key, GgufValue::of(value));
  }

  void metadata() {
    writer.set("general.architecture", GgufValue::of(std::string("deepseek4")));
    u32("block_count", kLayers);
    u32("context_length", 1048576);
    u32("embedding_length", 4096);
    u32("vocab_size", 129280);
    u32("attention.head_count", 64);
    u32("attention.head_count_kv", 1);
    u32("attention.key_length", 512);
    u32("attention.value_length", 512);
    u32("attention.q_lora_rank", 1024);
    u32("attention.output_lora_rank", 1024);
    u32("attention.output_group_count", 8);
    u32("attention.sliding_window", 128);
    u32("attention.indexer.head_count", 64);
    u32("attention.indexer.key_length", 128);
    u32("attention.indexer.top_k", 512);
    u32("rope.dimension_count", 64);
    u32("expert_count", 256);
    u32("expert_used_count", 6);
    u32("expert_shared_count", 1);
    u32("expert_feed_forward_length", 2048);
    u32("hash_layer_count", 3);
    u32("hyper_connection.count", 4);
    u32("hyper_connection.sinkhorn_iterations", 20);
    writer.set("deepseek4.swiglu_clamp_exp", GgufValue::of(10.0f));
    std::vector<int32_t> ratios;
    for (uint64_t layer = 0; layer < kLayers; ++layer)
      ratios.push_back(ratio(layer));
    ratios.push_back(0); // the draft block's
    writer.set("deepseek4.attention.compress_ratios", GgufValue::of(ratios));
  }

  static int32_t ratio(uint64_t layer) {
    return layer < 2 ? 0 : layer % 2 ? 128 : 4;
  }

  void tensors() {
    add("token_embd.weight", {4096, 129280}, WeightFormat::q6_K);
    dense("output", 4096, 129280);
    vector("output_norm.weight", 4096);
    dense("output_hc_fn", 16384, 4);
    vector("output_hc_base.weight", 4);
    vector("output_hc_scale.weight", 1);
    for (uint64_t i = 0; i < kLayers; ++i)
      layer(i);
  }

  void layer(uint64_t i) {
    std::string blk = "blk." + std::to_string(i) + ".";
    for (const char *site : {"hc_attn", "hc_ffn"}) {
      dense(blk + site + "_fn", 16384, 24);
      vector(blk + site + "_base.weight", 24);
      vector(blk + site + "_scale.weight", 3);
    }
    vector(blk + "attn_norm.weight", 4096);
    vector(blk + "ffn_norm.weight", 4096);
    dense(blk + "attn_q_a", 4096, 1024);
    vector(blk + "attn_q_a_norm.weight", 1024);
    dense(blk + "attn_q_b", 1024, 32768);
    dense(blk + "attn_kv", 4096, 512);
    vector(blk + "attn_kv_a_norm.weight", 512);
    dense(blk + "attn_output_a", 4096, 8192);
    dense(blk + "attn_output_b", 8192, 4096);
    vector(blk + "attn_sinks.weight", 64);
    const uint64_t r = ratio(i), channels = r == 4 ? 1024 : 512;
    if (r) {
      dense(blk + "attn_compressor_kv", 4096, channels);
      dense(blk + "attn_compressor_gate", 4096, channels);
      dense(blk + "attn_compressor_ape", channels, r);
      vector(blk + "attn_compressor_norm.weight", 512);
    }
    if (r == 4) {
      dense(blk + "indexer_compressor_kv", 4096, 256);
      dense(blk + "indexer_compressor_gate", 4096, 256);
      dense(blk + "indexer_compressor_ape", 256, 4);
      vector(blk + "indexer_compressor_norm.weight", 128);
      dense(blk + "indexer.attn_q_b", 1024, 8192);
      dense(blk + "indexer.proj", 4096, 64);
    }
    add(blk + "ffn_gate_inp.weight", {4096, 256}, WeightFormat::f32);
    if (i < 3)
      add(blk + "ffn_gate_tid2eid.weight", {6, 129280}, WeightFormat::i32);
    else
      vector(blk + "exp_probs_b.bias", 256);
    for (const char *name : {"ffn_gate_exps.weight", "ffn_up_exps.weight"})
      add(blk + name, {4096, 2048, 256}, WeightFormat::q2_0_rocmfp2);
    add(blk + "ffn_down_exps.weight", {2048, 4096, 256},
        WeightFormat::q3_0_rocmfpx);
    dense(blk + "ffn_gate_shexp", 4096, 2048);
    dense(blk + "ffn_up_shexp", 4096, 2048);
    dense(blk + "ffn_down_shexp", 2048, 4096);
  }
};
} // namespace

TEST(Flash, PlansTheRealModel) {
  FlashFile file;
  file.metadata();
  file.tensors();
  if (HasFatalFailure())
    return;
  Result<std::vector<std::byte>> header = file.writer.header();
  ASSERT_TRUE(header) << header.error().text;
  Result<uint64_t> bytes = file.writer.fileBytes();
  ASSERT_TRUE(bytes) << bytes.error().text;
  Result<Gguf> gguf = Gguf::parse(*header, *bytes, "flash.gguf");
  ASSERT_TRUE(gguf) << gguf.error().text;
  EXPECT_EQ(gguf->tensors().size(), 1328u);
  EXPECT_EQ(gguf->fileBytes() - gguf->dataOffset(), 102315302752u);

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
