// FlashFile.h - the header of DeepSeek V4 Flash at its real size, with the
// tensor types of the two published ROCmFPX files. Metadata is what the model
// builder reads.
#ifndef DS4_TEST_E2E_FLASHFILE_H
#define DS4_TEST_E2E_FLASHFILE_H

#include "quant/MixTables.h"
#include "runtime/GgufWriter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ds4 {

class FlashFile {
public:
  /// strix: experts of types 107 and 104, 102.3 GB. mix: 106 and 105 with their
  /// tables, 98.3 GB; which 15 of its down experts are of type 106 is not
  /// published, here they are the first.
  enum class Recipe { strix, mix };
  static constexpr uint64_t kLayers = 43, kExperts = 256;

  GgufWriter writer;

  explicit FlashFile(Recipe recipe) : recipe(recipe) {
    metadata();
    tensors();
    if (recipe == Recipe::mix)
      mixTables();
  }

private:
  void add(const std::string &name, std::vector<uint64_t> dims,
           WeightFormat format) {
    Status added = writer.declareTensor(name, std::move(dims), format);
    EXPECT_TRUE(added) << added.error().text;
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
    writer.set("general.name", GgufValue::of(std::string("Flash")));
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
      add(blk + name, {4096, 2048, kExperts}, gateFormat());
    add(blk + "ffn_down_exps.weight", {2048, 4096, kExperts}, downFormat(i));
    dense(blk + "ffn_gate_shexp", 4096, 2048);
    dense(blk + "ffn_up_shexp", 4096, 2048);
    dense(blk + "ffn_down_shexp", 2048, 4096);
  }

  WeightFormat gateFormat() const {
    return recipe == Recipe::mix ? WeightFormat::q2_1_rocmfp2_mix
                                 : WeightFormat::q2_0_rocmfp2;
  }
  WeightFormat downFormat(uint64_t layer) const {
    if (recipe == Recipe::strix)
      return WeightFormat::q3_0_rocmfpx;
    return layer < 15 ? WeightFormat::q2_1_rocmfp2_mix
                      : WeightFormat::q3_1_rocmfp3_mix;
  }

  /// As in the published file, p4mix has entries of all layers.
  void mixTables() {
    quant::MixTables tables(8);
    auto entry = [&](uint64_t i, const char *role, std::vector<uint64_t> dims,
                     WeightFormat format) {
      const unsigned levels = weightFormatInfo(format).bookLevels;
      std::vector<float> books;
      for (uint64_t book = 0; book < 2 * kExperts; ++book)
        for (unsigned level = 0; level < levels; ++level)
          books.push_back(static_cast<float>(level));
      GgufTensor tensor;
      tensor.name = "blk." + std::to_string(i) + "." + role + ".weight";
      tensor.dims = std::move(dims);
      tables.add(tensor, format, books);
    };
    for (uint64_t i = 0; i < kLayers; ++i) {
      for (const char *role : {"ffn_gate_exps", "ffn_up_exps"})
        entry(i, role, {4096, 2048, kExperts}, gateFormat());
      if (downFormat(i) == WeightFormat::q2_1_rocmfp2_mix)
        entry(i, "ffn_down_exps", {2048, 4096, kExperts}, downFormat(i));
      entry(i, "ffn_down_exps", {2048, 4096, kExperts},
            WeightFormat::q3_1_rocmfp3_mix);
    }
    tables.write(writer);
  }

  Recipe recipe;
};

} // namespace ds4

#endif // DS4_TEST_E2E_FLASHFILE_H
