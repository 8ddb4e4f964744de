// PrintBundle.cpp - everything here is read from manifest and plan; the model
// file is not needed.
#include "tools/PrintBundle.h"

#include "runtime/Admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

namespace ds4 {

/// "a 3, b 2, ...", most first, wrapped at 78 columns with this indent.
static std::string countsText(const std::map<std::string, uint64_t> &counts,
                              std::string_view indent) {
  std::vector<std::pair<std::string, uint64_t>> sorted(counts.begin(),
                                                       counts.end());
  std::ranges::sort(sorted, [](const auto &a, const auto &b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  std::string text, line(indent);
  for (size_t i = 0; i < sorted.size(); ++i) {
    std::string item = fmt::format("{} {}{}", sorted[i].first, sorted[i].second,
                                   i + 1 < sorted.size() ? ", " : "");
    if (line.size() + item.size() > 79) {
      text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
      line = indent;
    }
    line += item;
  }
  return text + line + '\n';
}

static std::string functionText(const Function &function) {
  std::map<std::string, uint64_t> ops;
  uint64_t weightBytes = 0;
  for (const Launch &launch : function.launches) {
    ++ops[launch.label];
    weightBytes += launch.weightBytesPerToken;
  }
  std::string text = fmt::format(
      "\n{}: {} launches, up to {} token{} and {} row{} of logits a step\n"
      "  activations {}, weights read a token {}, trace points {}\n",
      function.name, function.launches.size(), function.capacity,
      function.capacity == 1 ? "" : "s", function.outputs,
      function.outputs == 1 ? "" : "s", formatBytes(function.arenaBytes),
      formatBytes(weightBytes), function.traces.size());
  return text + countsText(ops, "  ");
}

std::string bundleText(const Bundle &bundle) {
  const Manifest &manifest = bundle.manifest;
  const Plan &plan = bundle.plan;
  std::string text = fmt::format(
      "bundle     {} (format {}, written by {})\n"
      "model      {}, {} layers, vocabulary {}, file fingerprint {}\n"
      "context    {} tokens\n",
      bundle.path.string(), manifest.version, manifest.tool, manifest.modelName,
      manifest.layers, manifest.vocab, manifest.fingerprint, manifest.context);
  std::string_view label = "profile";
  for (const auto &[key, value] : manifest.profile) {
    text += fmt::format("{:<10} {} = {}\n", label, key, value);
    label = "";
  }
  label = "targets";
  std::string_view last; // objects of a target's kernels are one line
  for (const ObjectDesc &object : manifest.objects) {
    if (object.target == last)
      continue;
    last = object.target;
    const std::filesystem::path file = object.file;
    text += fmt::format(
        "{:<10} {}{} in {}\n", label, object.target,
        object.cpu.empty() ? "" : " (" + object.cpu + ")",
        (object.kernel.empty() ? file : file.parent_path()).string());
    label = "";
  }
  text += fmt::format("kernels    {}\n", manifest.units.size());

  MemoryNeed need = memoryNeed(plan, 0);
  text += fmt::format("memory     {}\n", memoryText(need));
  std::map<std::string, uint64_t> formats, lanes, storages;
  for (const WeightDesc &weight : plan.weights) {
    const std::string format(weightFormatInfo(weight.format).name);
    formats[format] += deviceBytes(weight);
    if (weight.layout == WeightLayout::lanes)
      lanes[format] += deviceBytes(weight);
  }
  for (const StateDesc &state : plan.states)
    storages[state.storage] += state.rows * state.rowBytes;
  label = "weights";
  for (const auto &[format, bytes] : formats) {
    text += fmt::format("{:<10} {:>10} {}", label, formatBytes(bytes), format);
    if (lanes.contains(format))
      text += fmt::format(", {} in lanes", formatBytes(lanes[format]));
    text += "\n";
    label = "";
  }
  label = "states";
  for (const auto &[storage, bytes] : storages) {
    text +=
        fmt::format("{:<10} {:>10} {}\n", label, formatBytes(bytes), storage);
    label = "";
  }
  for (const Function &function : plan.functions)
    text += functionText(function);
  return text;
}

} // namespace ds4
