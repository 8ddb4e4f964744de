// Hparams.cpp - reads and checks the keys of docs/model.md, "Metadata".
#include "models/Hparams.h"

#include <fmt/format.h>

namespace ds4 {

/// Reads keys below "deepseek4." and remembers the first error, so that the
/// list of keys below reads like a table.
namespace {
class KeyReader {
public:
  explicit KeyReader(const Gguf &gguf) : gguf(gguf) {}

  /// A required positive integer, at most `most`.
  void size(const char *key, int64_t &value, int64_t most = 1 << 24) {
    if (failure)
      return;
    std::string name = fullKey(key);
    Result<uint64_t> found = gguf.u64(name);
    if (!found)
      return fail(found.error());
    if (*found == 0 || *found > static_cast<uint64_t>(most))
      return fail(invalidInput(fmt::format("{}: {} is {}, expected 1 to {}",
                                           gguf.path(), name, *found, most)));
    value = static_cast<int64_t>(*found);
  }

  void sizeOr(const char *key, int64_t &value, int64_t otherwise) {
    value = otherwise;
    if (!failure && gguf.find(fullKey(key)))
      size(key, value);
  }

  void real(const char *key, double &value, double otherwise) {
    if (failure)
      return;
    std::string name = fullKey(key);
    Result<double> found = gguf.f64Or(name, otherwise);
    if (!found)
      return fail(found.error());
    if (!(*found > 0 && *found < 1e30))
      return fail(invalidInput(fmt::format("{}: {} is {}, expected a positive "
                                           "number",
                                           gguf.path(), name, *found)));
    value = *found;
  }

  /// A key that the engine implements for one value only; absent is fine.
  void fixed(const char *key, int64_t expected) {
    if (failure || !gguf.find(fullKey(key)))
      return;
    std::string name = fullKey(key);
    Result<int64_t> found = gguf.i64(name);
    if (!found)
      return fail(found.error());
    if (*found != expected)
      fail(invalidInput(fmt::format("{}: {} is {}; only {} is supported",
                                    gguf.path(), name, *found, expected)));
  }

  void fail(Error error) {
    if (!failure)
      failure = std::move(error);
  }
  static std::string fullKey(const char *key) {
    return std::string("deepseek4.") + key;
  }

  const Gguf &gguf;
  std::optional<Error> failure;
};
} // namespace

/// A clamp is one number for all layers or an array of at least one a layer.
static Result<std::vector<double>>
readClamp(const Gguf &gguf, const std::string &key, int64_t layers) {
  DS4_ASSIGN(std::vector<double> clamp, gguf.floatArray(key));
  const GgufValue *value = gguf.find(key);
  if (!value->isArray())
    clamp.assign(layers, clamp.at(0));
  if (static_cast<int64_t>(clamp.size()) < layers)
    return invalidInput(fmt::format("{}: {} has {} values for {} layers",
                                    gguf.path(), key, clamp.size(), layers));
  clamp.resize(layers);
  for (double limit : clamp)
    if (!(limit > 0 && limit < 1e30))
      return invalidInput(
          fmt::format("{}: {} holds {}, expected positive numbers", gguf.path(),
                      key, limit));
  return clamp;
}

Result<Hparams> readHparams(const Gguf &gguf) {
  DS4_ASSIGN(std::string architecture, gguf.string("general.architecture"));
  if (architecture != "deepseek4")
    return invalidInput(fmt::format(
        "{}: architecture is '{}'; ds4c compiles 'deepseek4' (DeepSeek V4)",
        gguf.path(), architecture));

  Hparams h;
  KeyReader keys(gguf);
  keys.size("block_count", h.layers, 1024);
  keys.size("embedding_length", h.hidden);
  keys.size("vocab_size", h.vocab);
  keys.sizeOr("context_length", h.contextLength, 1048576);
  keys.size("attention.head_count", h.heads, 4096);
  keys.fixed("attention.head_count_kv", 1);
  keys.size("attention.key_length", h.headDim, 4096);
  keys.fixed("attention.value_length", h.headDim);
  keys.size("attention.q_lora_rank", h.qLoraRank);
  keys.size("attention.output_lora_rank", h.outputLoraRank);
  keys.size("attention.output_group_count", h.outputGroups, 4096);
  keys.size("attention.sliding_window", h.window, 65536);
  keys.real("attention.layer_norm_rms_epsilon", h.rmsEps, 1e-6);
  keys.size("attention.indexer.head_count", h.indexHeads, 4096);
  keys.size("attention.indexer.key_length", h.indexDim, 4096);
  keys.size("attention.indexer.top_k", h.indexTopK, 65536);
  keys.size("rope.dimension_count", h.ropeDims, 4096);
  keys.real("rope.freq_base", h.ropeBase, 10000);
  keys.real("attention.compress_rope_freq_base", h.compressRopeBase, 160000);
  keys.real("rope.scaling.factor", h.yarnFactor, 16);
  keys.sizeOr("rope.scaling.original_context_length", h.yarnOriginal, 65536);
  keys.real("rope.scaling.yarn_beta_fast", h.yarnBetaFast, 32);
  keys.real("rope.scaling.yarn_beta_slow", h.yarnBetaSlow, 1);
  keys.size("expert_count", h.experts, 65536);
  keys.size("expert_used_count", h.expertsUsed, 64);
  keys.fixed("expert_shared_count", 1);
  keys.size("expert_feed_forward_length", h.expertWidth);
  keys.real("expert_weights_scale", h.expertScale, 1.5);
  keys.fixed("expert_gating_func", 4); // sqrt(softplus)
  keys.fixed("expert_group_count", 0);
  keys.size("hyper_connection.count", h.streams, 16);
  keys.size("hyper_connection.sinkhorn_iterations", h.sinkhornIterations, 1000);
  keys.real("hyper_connection.epsilon", h.hcEps, 1e-6);
  if (keys.failure)
    return *keys.failure;

  DS4_ASSIGN(h.name, gguf.stringOr("general.name", gguf.path()));
  DS4_ASSIGN(bool normalised,
             gguf.booleanOr("deepseek4.expert_weights_norm", true));
  if (!normalised)
    return invalidInput(fmt::format("{}: deepseek4.expert_weights_norm is "
                                    "false; only true is supported",
                                    gguf.path()));
  DS4_ASSIGN(uint64_t hashLayers, gguf.u64("deepseek4.hash_layer_count"));
  h.hashLayers = std::min(
      static_cast<int64_t>(std::min<uint64_t>(hashLayers, 1 << 20)), h.layers);

  std::string ratiosKey = "deepseek4.attention.compress_ratios";
  DS4_ASSIGN(h.compressRatios, gguf.intArray(ratiosKey));
  // The published files list one more, for the draft block.
  if (static_cast<int64_t>(h.compressRatios.size()) < h.layers)
    return invalidInput(fmt::format("{}: {} has {} values for {} layers",
                                    gguf.path(), ratiosKey,
                                    h.compressRatios.size(), h.layers));
  h.compressRatios.resize(h.layers);
  for (int64_t ratio : h.compressRatios)
    if (ratio < 0 || ratio == 1 || ratio > 4096)
      return invalidInput(fmt::format("{}: {} holds {}, expected 0 or 2 to "
                                      "4096",
                                      gguf.path(), ratiosKey, ratio));

  DS4_ASSIGN(h.clampExperts,
             readClamp(gguf, "deepseek4.swiglu_clamp_exp", h.layers));
  h.clampSharedExpert = h.clampExperts;
  if (std::string key = "deepseek4.swiglu_clamp_shexp"; gguf.find(key)) {
    DS4_ASSIGN(h.clampSharedExpert, readClamp(gguf, key, h.layers));
  }

  if (h.heads % h.outputGroups)
    return invalidInput(
        fmt::format("{}: {} heads do not divide into {} output groups",
                    gguf.path(), h.heads, h.outputGroups));
  if (h.ropeDims % 2 || h.ropeDims > h.headDim || h.ropeDims > h.indexDim)
    return invalidInput(fmt::format(
        "{}: deepseek4.rope.dimension_count is {}, expected an even number up "
        "to the head and index widths {} and {}",
        gguf.path(), h.ropeDims, h.headDim, h.indexDim));
  if (h.expertsUsed > h.experts)
    return invalidInput(fmt::format("{}: {} experts used of {}", gguf.path(),
                                    h.expertsUsed, h.experts));
  return h;
}

} // namespace ds4
