// WeightMap.cpp - tensor names and shapes (docs/model.md, "Tensors").
#include "models/WeightMap.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ds4 {

namespace {
/// What a tensor may be stored as.
enum class Kind {
  matrix,   ///< any float or block-quantised format without learned books
  adaptive, ///< as matrix, or with learned books: experts and attention
  vector,   ///< f32
  table,    ///< i32
};

/// Looks tensors up and remembers the first error, so that the lists below
/// read like tables.
class TensorReader {
public:
  explicit TensorReader(const Gguf &gguf) : gguf(gguf) {}

  WeightRef get(const std::string &name, std::vector<int64_t> shape,
                Kind kind) {
    WeightRef ref{name, shape, WeightFormat::f32};
    if (failure)
      return ref;
    const GgufTensor *tensor = gguf.findTensor(name);
    if (!tensor) {
      failure =
          invalidInput(fmt::format("{}: tensor '{}' is missing, expected [{}]",
                                   gguf.path(), name, fmt::join(shape, ", ")));
      return ref;
    }
    std::vector<int64_t> found(tensor->dims.rbegin(), tensor->dims.rend());
    if (found != shape) {
      failure = invalidInput(fmt::format(
          "{}: tensor '{}' is [{}], expected [{}] (outermost first)",
          gguf.path(), name, fmt::join(found, ", "), fmt::join(shape, ", ")));
      return ref;
    }
    ref.format = tensor->format();
    checkFormat(ref, kind);
    return ref;
  }

  std::optional<Error> failure;

private:
  void checkFormat(const WeightRef &ref, Kind kind) {
    const WeightFormatInfo &info = weightFormatInfo(ref.format);
    bool integer = ref.format == WeightFormat::i32;
    bool good = false;
    std::string_view expected;
    switch (kind) {
    case Kind::matrix:
      good = !integer && info.bookLevels == 0;
      expected = "a float or block-quantised format with fixed levels";
      break;
    case Kind::adaptive:
      good = !integer;
      expected = "a float or block-quantised format";
      break;
    case Kind::vector:
      good = ref.format == WeightFormat::f32;
      expected = "f32";
      break;
    case Kind::table:
      good = integer;
      expected = "i32";
      break;
    }
    if (!good)
      failure = invalidInput(
          fmt::format("{}: tensor '{}' is stored as {}, expected {}",
                      gguf.path(), ref.name, info.name, expected));
  }

  const Gguf &gguf;
};
} // namespace

static HyperConnectionWeights readSite(TensorReader &tensors,
                                       const std::string &prefix, int64_t mixes,
                                       int64_t scales, const Hparams &h) {
  return {tensors.get(prefix + "_fn.weight", {mixes, h.streams * h.hidden},
                      Kind::matrix),
          tensors.get(prefix + "_scale.weight", {scales}, Kind::vector),
          tensors.get(prefix + "_base.weight", {mixes}, Kind::vector)};
}

static CompressorWeights readCompressor(TensorReader &tensors,
                                        const std::string &prefix,
                                        int64_t ratio, int64_t channels,
                                        int64_t width, const Hparams &h) {
  return {
      tensors.get(prefix + "_kv.weight", {channels, h.hidden}, Kind::matrix),
      tensors.get(prefix + "_gate.weight", {channels, h.hidden}, Kind::matrix),
      tensors.get(prefix + "_ape.weight", {ratio, channels}, Kind::matrix),
      tensors.get(prefix + "_norm.weight", {width}, Kind::vector)};
}

static LayerWeights readLayer(TensorReader &tensors, int64_t layer,
                              const Hparams &h) {
  std::string blk = fmt::format("blk.{}.", layer);
  auto matrix = [&](const char *name, int64_t out, int64_t in) {
    return tensors.get(blk + name, {out, in}, Kind::matrix);
  };
  auto attention = [&](const char *name, int64_t out, int64_t in) {
    return tensors.get(blk + name, {out, in}, Kind::adaptive);
  };
  auto vector = [&](const char *name, int64_t size) {
    return tensors.get(blk + name, {size}, Kind::vector);
  };
  auto experts = [&](const char *name, int64_t out, int64_t in) {
    return tensors.get(blk + name, {h.experts, out, in}, Kind::adaptive);
  };

  LayerWeights w;
  int64_t mixes = (2 + h.streams) * h.streams;
  w.hcAttn = readSite(tensors, blk + "hc_attn", mixes, 3, h);
  w.hcFfn = readSite(tensors, blk + "hc_ffn", mixes, 3, h);
  w.attnNorm = vector("attn_norm.weight", h.hidden);
  w.ffnNorm = vector("ffn_norm.weight", h.hidden);

  int64_t groupInputs = h.heads / h.outputGroups * h.headDim;
  int64_t groupOutputs = h.outputGroups * h.outputLoraRank;
  w.qA = attention("attn_q_a.weight", h.qLoraRank, h.hidden);
  w.qANorm = vector("attn_q_a_norm.weight", h.qLoraRank);
  w.qB = attention("attn_q_b.weight", h.heads * h.headDim, h.qLoraRank);
  w.kv = attention("attn_kv.weight", h.headDim, h.hidden);
  w.kvNorm = vector("attn_kv_a_norm.weight", h.headDim);
  w.outputA = attention("attn_output_a.weight", groupOutputs, groupInputs);
  w.outputB = attention("attn_output_b.weight", h.hidden, groupOutputs);
  w.sinks = vector("attn_sinks.weight", h.heads);

  int64_t ratio = h.compressRatios[layer];
  bool indexer = h.hasIndexer(layer);
  if (ratio)
    w.compressor = readCompressor(tensors, blk + "attn_compressor", ratio,
                                  (indexer ? 2 : 1) * h.headDim, h.headDim, h);
  if (indexer) {
    w.indexCompressor = readCompressor(tensors, blk + "indexer_compressor",
                                       ratio, 2 * h.indexDim, h.indexDim, h);
    w.indexQB = matrix("indexer.attn_q_b.weight", h.indexHeads * h.indexDim,
                       h.qLoraRank);
    w.indexProj = matrix("indexer.proj.weight", h.indexHeads, h.hidden);
  }

  w.router = matrix("ffn_gate_inp.weight", h.experts, h.hidden);
  if (layer < h.hashLayers)
    w.hashTable = tensors.get(blk + "ffn_gate_tid2eid.weight",
                              {h.vocab, h.expertsUsed}, Kind::table);
  else
    w.routerBias = vector("exp_probs_b.bias", h.experts);
  w.gateExperts = experts("ffn_gate_exps.weight", h.expertWidth, h.hidden);
  w.upExperts = experts("ffn_up_exps.weight", h.expertWidth, h.hidden);
  w.downExperts = experts("ffn_down_exps.weight", h.hidden, h.expertWidth);
  w.gateShared = matrix("ffn_gate_shexp.weight", h.expertWidth, h.hidden);
  w.upShared = matrix("ffn_up_shexp.weight", h.expertWidth, h.hidden);
  w.downShared = matrix("ffn_down_shexp.weight", h.hidden, h.expertWidth);
  return w;
}

Result<ModelWeights> mapWeights(const Gguf &gguf, const Hparams &h) {
  TensorReader tensors(gguf);
  ModelWeights weights;
  weights.embedding =
      tensors.get("token_embd.weight", {h.vocab, h.hidden}, Kind::matrix);
  weights.outputNorm =
      tensors.get("output_norm.weight", {h.hidden}, Kind::vector);
  weights.output =
      tensors.get("output.weight", {h.vocab, h.hidden}, Kind::matrix);
  weights.head = readSite(tensors, "output_hc", h.streams, 1, h);
  for (int64_t layer = 0; layer < h.layers && !tensors.failure; ++layer) {
    weights.layers.push_back(readLayer(tensors, layer, h));
    const LayerWeights &w = weights.layers.back();
    if (!tensors.failure && w.gateExperts.format != w.upExperts.format)
      return invalidInput(fmt::format(
          "{}: '{}' is stored as {} and '{}' as {}; one kernel reads both, so "
          "they must be alike",
          gguf.path(), w.gateExperts.name,
          weightFormatInfo(w.gateExperts.format).name, w.upExperts.name,
          weightFormatInfo(w.upExperts.format).name));
  }
  if (tensors.failure)
    return *tensors.failure;
  return weights;
}

std::vector<const WeightRef *> allWeights(const ModelWeights &weights) {
  std::vector<const WeightRef *> all;
  auto add = [&](const auto &...refs) { (all.push_back(&refs), ...); };
  auto addSite = [&](const HyperConnectionWeights &site) {
    add(site.fn, site.scale, site.base);
  };
  auto addIf = [&](const std::optional<WeightRef> &ref) {
    if (ref)
      add(*ref);
  };
  auto addCompressor = [&](const std::optional<CompressorWeights> &it) {
    if (it)
      add(it->kv, it->gate, it->ape, it->norm);
  };
  add(weights.embedding, weights.outputNorm, weights.output);
  addSite(weights.head);
  for (const LayerWeights &w : weights.layers) {
    addSite(w.hcAttn);
    addSite(w.hcFfn);
    add(w.attnNorm, w.ffnNorm, w.qA, w.qANorm, w.qB, w.kv, w.kvNorm, w.outputA,
        w.outputB, w.sinks);
    addCompressor(w.compressor);
    addCompressor(w.indexCompressor);
    addIf(w.indexQB);
    addIf(w.indexProj);
    add(w.router);
    addIf(w.routerBias);
    addIf(w.hashTable);
    add(w.gateExperts, w.upExperts, w.downExperts, w.gateShared, w.upShared,
        w.downShared);
  }
  return all;
}

} // namespace ds4
