// InspectCommand.cpp - what follows from the header alone: sizes from the
// tensor table, reads of a token from roles, caches from the table "State" of
// docs/model.md.
#include "tools/InspectCommand.h"

#include "models/WeightMap.h"
#include "runtime/Admission.h"
#include "tools/InspectReadings.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <ostream>

namespace ds4 {
namespace {

std::string counted(uint64_t number, std::string_view what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

std::string modelText(const Gguf &gguf, const Hparams &h) {
  uint64_t sliding = 0, csa = 0, hca = 0;
  for (int64_t layer = 0; layer < h.layers; ++layer)
    ++(!h.compressRatios[layer] ? sliding : h.hasIndexer(layer) ? csa : hca);
  return inspectSection(
      "model",
      {fmt::format("{} (deepseek4), GGUF {}, {} in {}", h.name, gguf.version(),
                   formatBytes(gguf.fileBytes()),
                   counted(gguf.tensors().size(), "tensor")),
       fmt::format("{} of width {}: {} sliding, {} CSA, {} HCA",
                   counted(h.layers, "layer"), h.hidden, sliding, csa, hca),
       fmt::format("{} of {}, window {}, vocabulary {}, {} positions",
                   counted(h.heads, "head"), h.headDim, h.window, h.vocab,
                   h.contextLength),
       fmt::format("{} experts, {} routed and 1 shared a token; {} by token id",
                   h.experts, h.expertsUsed, counted(h.hashLayers, "layer"))});
}

uint64_t bytesOf(const WeightRef &ref) {
  uint64_t rows = 1;
  for (size_t i = 0; i + 1 < ref.shape.size(); ++i)
    rows *= static_cast<uint64_t>(ref.shape[i]);
  return rows *
         weightRowBytes(ref.format, static_cast<uint64_t>(ref.shape.back()));
}

/// What decoding a token reads of a weight, and what it is part of.
struct TokenRead {
  std::string_view role;
  uint64_t bytes;
};

TokenRead tokenRead(const WeightRef &ref, const Hparams &h) {
  const std::string_view name = ref.name;
  const uint64_t bytes = bytesOf(ref);
  const auto first = static_cast<uint64_t>(ref.shape.front());
  if (name.ends_with("_exps.weight"))
    return {"routed experts", bytes / first * h.expertsUsed};
  if (name.ends_with("_shexp.weight"))
    return {"shared experts", bytes};
  // Tables of which one row is read.
  if (name == "token_embd.weight" || name.ends_with("_tid2eid.weight") ||
      name.ends_with("_ape.weight"))
    return {"the rest", bytes / first};
  if (name == "output.weight")
    return {"output head", bytes};
  if (name.find(".attn_") != name.npos || name.find(".indexer") != name.npos)
    return {"attention", bytes};
  return {"the rest", bytes};
}

std::string tokenText(const std::vector<const WeightRef *> &weights,
                      const Hparams &h) {
  std::map<std::string_view, uint64_t> roles;
  uint64_t total = 0;
  for (const WeightRef *ref : weights) {
    const TokenRead read = tokenRead(*ref, h);
    roles[read.role] += read.bytes;
    total += read.bytes;
  }
  std::vector<std::string> lines{
      fmt::format("{} of weights read a decoded token", formatBytes(total))};
  for (std::string_view role : {"routed experts", "shared experts", "attention",
                                "output head", "the rest"})
    lines.push_back(fmt::format("{:>10} {:>4} {}", formatBytes(roles[role]),
                                percentText(static_cast<double>(roles[role]) /
                                            static_cast<double>(total)),
                                role));
  return inspectSection("token", lines);
}

/// Bytes of a cached row (StateType::getRowBytes).
uint64_t rowBytes(uint64_t width, std::string_view kv, bool indexRow) {
  if (kv == "f32")
    return 4 * width;
  if (kv == "f16")
    return 2 * width;
  auto align = [](uint64_t bytes, uint64_t to) {
    return (bytes + to - 1) / to * to;
  };
  return indexRow ? align(width / 2 + width / 32, 4)
                  : align(width - 64 + 128 + (width - 64) / 64, 16);
}

/// Bytes of all states and rotary tables.
uint64_t cacheBytes(const Hparams &h, uint64_t context, std::string_view kv) {
  constexpr uint64_t kVerifyWidth = 4; // the profiles' default
  uint64_t bytes = 2 * context * static_cast<uint64_t>(h.ropeDims) * 4;
  for (int64_t layer = 0; layer < h.layers; ++layer) {
    const auto ratio = static_cast<uint64_t>(h.compressRatios[layer]);
    const auto width = static_cast<uint64_t>(h.headDim),
               indexWidth = static_cast<uint64_t>(h.indexDim);
    bytes += std::bit_ceil(static_cast<uint64_t>(h.window) - 1 + kVerifyWidth) *
             rowBytes(width, kv, false);
    if (!ratio)
      continue;
    const uint64_t overlap = h.hasIndexer(layer) ? 2 : 1;
    const uint64_t ring = std::bit_ceil(overlap * ratio - 1 + kVerifyWidth);
    bytes += 2 * ring * overlap * width * 4 +
             context / ratio * rowBytes(width, kv, false);
    if (h.hasIndexer(layer))
      bytes += 2 * ring * 2 * indexWidth * 4 +
               context / ratio * rowBytes(indexWidth, kv, true);
  }
  return bytes;
}

std::string memoryText(uint64_t weights, const Hparams &h,
                       const InspectOptions &options, bool &fits) {
  const uint64_t context = std::min<uint64_t>(
      options.context, static_cast<uint64_t>(h.contextLength));
  const uint64_t caches = cacheBytes(h, context, options.kv);
  const uint64_t need = weights + caches;
  const uint64_t limit = options.memory ? options.memory : availableMemory();
  const std::string_view who = options.memory ? "given" : "available here";
  std::vector<std::string> lines{fmt::format(
      "{} weights + {} caches of {} positions (kv {})", formatBytes(weights),
      formatBytes(caches), context, options.kv)};
  if (limit == 0) {
    lines.push_back("this machine does not say how much is available: give "
                    "--memory=SIZE");
  } else if (need <= limit) {
    lines.push_back(fmt::format("{} fit into the {} {}, {} are left",
                                formatBytes(need), formatBytes(limit), who,
                                formatBytes(limit - need)));
  } else {
    fits = options.memory == 0;
    lines.push_back(fmt::format("{} do not fit into the {} {}: {} too much",
                                formatBytes(need), formatBytes(limit), who,
                                formatBytes(need - limit)));
  }
  return inspectSection("memory", lines);
}

} // namespace

Result<Inspection> inspectModel(const InspectOptions &options) {
  DS4_ASSIGN(Gguf gguf, Gguf::open(options.model));
  gguf.readFp2As(options.fp2);
  DS4_ASSIGN(const Hparams h, readHparams(gguf));
  DS4_ASSIGN(const ModelWeights model, mapWeights(gguf, h));
  DS4_ASSIGN(const std::vector<FoundDecodeTable> found, findDecodeTables(gguf));
  DS4_ASSIGN(const DecodeTables tables,
             readDecodeTables(gguf, Rotations::accept));
  const std::vector<const WeightRef *> weights = allWeights(model);
  uint64_t bytes = 0;
  for (const WeightRef *ref : weights)
    bytes += bytesOf(*ref);
  for (const auto &[name, table] : tables)
    bytes += table.books.size() * sizeof(float);

  Inspection result;
  result.text = modelText(gguf, h) + typesText(gguf);
  DS4_ASSIGN(const std::string readings, readingsText(gguf, tables));
  result.text += readings + tablesText(gguf, found, tables);
  if (const size_t ignored = gguf.tensors().size() - weights.size())
    result.text += inspectSection(
        "unused", {fmt::format("{} that the model's graph does not read",
                               counted(ignored, "tensor"))});
  result.text += tokenText(weights, h);
  result.text += memoryText(bytes, h, options, result.fits);
  return result;
}

static constexpr const char *kHelp =
    R"(ds4run inspect: what a model file holds, and whether it fits
usage: ds4run inspect MODEL.gguf [options]
  --memory=SIZE      memory to fit into, as 128GB or 120GiB; exit code 1 if it
                     does not (default: what this machine has, exit code 0)
  --context=N        positions that the caches are for (default 65536)
  --kv=fp8|f16|f32   storage of cached rows (default fp8)
  --fp2=READING      dual|affine|fp2s|s40: type 107, as ds4c (default dual)
Activations come on top: ds4run BUNDLE --print-bundle says how much they take.
example: ds4run inspect v4.gguf --memory=128GB
)";

void addInspectOptions(CLI::App &command, InspectOptions &options) {
  command.formatter_fn([](const CLI::App *, std::string, CLI::AppFormatMode) {
    return std::string(kHelp);
  });
  command.add_option("MODEL,-m,--model", options.model)->required();
  command.add_option("--memory", options.memory)
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true));
  command.add_option("--context", options.context)
      ->check(CLI::Range(128, 1048576));
  command.add_option("--kv", options.kv)
      ->check(CLI::IsMember({"fp8", "f16", "f32"}));
  command
      .add_option_function<std::string>("--fp2",
                                        [&options](const std::string &name) {
                                          options.fp2 =
                                              *fp2ReadingFromName(name);
                                        })
      ->check(CLI::IsMember({"dual", "affine", "fp2s", "s40"}));
}

int runInspectCommand(const InspectOptions &options, std::ostream &out,
                      std::ostream &err) {
  Result<Inspection> inspection = inspectModel(options);
  if (inspection && !(out << inspection->text << std::flush))
    inspection = ioError("cannot write standard output");
  if (!inspection) {
    err << "ds4run: " << inspection.error().text << '\n';
    return 1;
  }
  return inspection->fits ? 0 : 1;
}

} // namespace ds4
