// PlanTable.cpp - sums over launches, and their layout as text.
#include "runtime/PlanTable.h"

#include "runtime/Admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

namespace ds4 {

namespace {

/// What a plan says by name.
using WeightsByName = std::map<std::string_view, const WeightDesc *>;

/// Consecutive launches of one layer, or of none.
struct Section {
  int layer = -1;
  size_t first = 0, count = 0; ///< launches
  StepBytes bytes;
  std::string_view kind;   ///< as docs/model.md has them; empty outside layers
  std::vector<int> layers; ///< all that have these launches
};

} // namespace

static WeightsByName weightsByName(const Plan &plan) {
  WeightsByName weights;
  for (const WeightDesc &weight : plan.weights)
    weights[weight.name] = &weight;
  return weights;
}

/// Bytes of `slices` slices of shape[0] of a weight of `bytes` bytes.
static uint64_t bytesOfSlices(const WeightDesc &weight, uint64_t bytes,
                              uint64_t slices) {
  const uint64_t all =
      weight.shape.empty() ? 1 : std::max<int64_t>(weight.shape.front(), 1);
  return bytes / all * std::min(slices, all);
}

static StepBytes launchBytes(const WeightsByName &weights,
                             const Function &function, const Launch &launch) {
  StepBytes bytes{0, launch.readBytes, launch.writtenBytes};
  for (const Arg &arg : launch.args)
    if (arg.kind == ArgKind::weight) {
      const WeightDesc &weight = *weights.at(arg.name);
      bytes.weights += bytesOfSlices(weight, deviceBytes(weight),
                                     weight.slicesPerToken * function.capacity);
    }
  return bytes;
}

static void add(StepBytes &sum, const StepBytes &bytes) {
  sum.weights += bytes.weights;
  sum.read += bytes.read;
  sum.written += bytes.written;
}

StepBytes stepBytes(const Plan &plan, const Function &function) {
  const WeightsByName weights = weightsByName(plan);
  StepBytes sum;
  for (const Launch &launch : function.launches)
    add(sum, launchBytes(weights, function, launch));
  return sum;
}

uint64_t tokenWeightBytes(const Plan &plan) {
  uint64_t bytes = 0;
  for (const WeightDesc &weight : plan.weights)
    bytes += bytesOfSlices(weight, weight.bytes, weight.slicesPerToken);
  return bytes;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// "blk.7.raw_ring" without its layer.
static std::string_view withoutLayer(std::string_view name) {
  const size_t dot = name.starts_with("blk.") ? name.find('.', 4) : 0;
  return dot == std::string_view::npos || dot == 0 ? name
                                                   : name.substr(dot + 1);
}

static std::string memoryLine(std::string_view what, uint64_t bytes,
                              std::string_view note) {
  return fmt::format("  {:<22} {:>10}  {}\n", what, formatBytes(bytes), note);
}

std::string memoryTable(const Plan &plan, uint64_t stagingBytes) {
  const MemoryNeed need = memoryNeed(plan, stagingBytes);
  std::string text =
      memoryLine("weights", need.weights,
                 fmt::format("{} tensors, {} decode tables",
                             plan.weights.size(), plan.books.size()));
  std::map<std::string_view, std::pair<uint64_t, uint64_t>> states;
  uint64_t stateBytes = 0, tableBytes = 0;
  for (const StateDesc &state : plan.states) {
    auto &[count, bytes] = states[withoutLayer(state.name)];
    ++count;
    bytes += state.rows * state.rowBytes;
    stateBytes += state.rows * state.rowBytes;
  }
  for (const RopeTable &table : plan.tables)
    tableBytes += table.positions * table.dims * sizeof(float);
  text += memoryLine("states", stateBytes, "");
  for (const auto &[name, state] : states)
    text += memoryLine(fmt::format("  {}", name), state.second,
                       fmt::format("in {} layers", state.first));
  text += memoryLine("rotary tables", tableBytes,
                     fmt::format("{}", plan.tables.size()));
  for (const Function &function : plan.functions)
    text += memoryLine(
        fmt::format("activations, {}", function.name), function.arenaBytes,
        function.arenaBytes == need.arena ? "the largest phase's are allocated"
                                          : "");
  if (stagingBytes)
    text += memoryLine("staging", stagingBytes, "while loading");
  return text + memoryLine("total", need.total(), "");
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// "0-2, 7, 10-20/2" for ascending numbers.
static std::string rangesText(const std::vector<int> &numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    const int step = i + 1 < numbers.size() ? numbers[i + 1] - numbers[i] : 1;
    while (last + 1 < numbers.size() &&
           numbers[last + 1] - numbers[last] == step)
      ++last;
    // Two numbers that are not neighbours are no range.
    if (last == i + 1 && step > 1)
      last = i;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[i]);
    if (last > i)
      text += fmt::format("-{}", numbers[last]);
    if (last > i && step > 1)
      text += fmt::format("/{}", step);
    i = last + 1;
  }
  return text;
}

/// A layer's kind shows in the caches that it uses.
static std::string_view kindOf(const Function &function,
                               const Section &section) {
  std::string_view kind = section.layer < 0 ? "" : "sliding";
  for (size_t i = section.first; i < section.first + section.count; ++i)
    for (const Arg &arg : function.launches[i].args) {
      if (arg.kind != ArgKind::state)
        continue;
      if (arg.name.ends_with(".index_rows"))
        return "CSA";
      if (arg.name.ends_with(".compressed_rows"))
        kind = "HCA";
    }
  return kind;
}

/// Whether the launches of two sections look alike in the table.
static bool areAlike(const Function &function, const WeightsByName &weights,
                     const Section &a, const Section &b) {
  if (a.count != b.count || a.layer < 0 || b.layer < 0)
    return false;
  for (size_t i = 0; i < a.count; ++i) {
    const Launch &x = function.launches[a.first + i];
    const Launch &y = function.launches[b.first + i];
    const StepBytes p = launchBytes(weights, function, x);
    const StepBytes q = launchBytes(weights, function, y);
    if (std::tie(x.label, x.grid, x.block, p.weights, p.read, p.written) !=
        std::tie(y.label, y.grid, y.block, q.weights, q.read, q.written))
      return false;
  }
  return true;
}

static std::vector<Section> sectionsOf(const Function &function,
                                       const WeightsByName &weights) {
  std::vector<Section> all, distinct;
  for (size_t i = 0; i < function.launches.size(); ++i) {
    const Launch &launch = function.launches[i];
    if (all.empty() || all.back().layer != launch.layer) {
      all.emplace_back();
      all.back().layer = launch.layer;
      all.back().first = i;
    }
    ++all.back().count;
    add(all.back().bytes, launchBytes(weights, function, launch));
  }
  for (Section &section : all) {
    auto same = std::ranges::find_if(distinct, [&](const Section &other) {
      return areAlike(function, weights, section, other);
    });
    if (same == distinct.end()) {
      section.kind = kindOf(function, section);
      same = distinct.insert(distinct.end(), section);
    }
    same->layers.push_back(section.layer);
  }
  return distinct;
}

static std::string share(const StepBytes &bytes, const StepBytes &sum) {
  if (sum.total() == 0)
    return "-";
  return fmt::format("{:.2f} %", 100.0 * static_cast<double>(bytes.total()) /
                                     static_cast<double>(sum.total()));
}

static std::string bytesText(const StepBytes &bytes, const StepBytes &sum) {
  return fmt::format("{:>10} {:>10} {:>10} {:>9}\n", formatBytes(bytes.weights),
                     formatBytes(bytes.read), formatBytes(bytes.written),
                     share(bytes, sum));
}

static std::string launchLine(const Function &function, size_t number,
                              const WeightsByName &weights,
                              const StepBytes &sum) {
  const Launch &launch = function.launches[number];
  return fmt::format("{:>6}  {:<20} {:>11} {:>6} {}", number, launch.label,
                     fmt::format("{}x{}", launch.grid[0], launch.grid[1]),
                     launch.block,
                     bytesText(launchBytes(weights, function, launch), sum));
}

/// "expert_down 402.7 MB, ...": the launches that write most, by op.
static std::string largestWriters(const Function &function) {
  std::map<std::string_view, uint64_t> most;
  for (const Launch &launch : function.launches)
    most[launch.label] = std::max(most[launch.label], launch.writtenBytes);
  std::vector<std::pair<std::string_view, uint64_t>> sorted(most.begin(),
                                                            most.end());
  std::ranges::stable_sort(
      sorted, [](const auto &a, const auto &b) { return a.second > b.second; });
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(sorted.size(), 3); ++i)
    text += fmt::format("{}{} {}", i ? ", " : "", sorted[i].first,
                        formatBytes(sorted[i].second));
  return text;
}

static std::string functionTable(const Plan &plan, const Function &function) {
  const WeightsByName weights = weightsByName(plan);
  const StepBytes sum = stepBytes(plan, function);
  const std::vector<Section> sections = sectionsOf(function, weights);
  std::string text = fmt::format(
      "\n{}: {} launches, up to {} token{} a step\n"
      "  a full step reads {} of weights and {} of activations, writes {}\n",
      function.name, function.launches.size(), function.capacity,
      function.capacity == 1 ? "" : "s", formatBytes(sum.weights),
      formatBytes(sum.read), formatBytes(sum.written));
  if (const uint64_t must = tokenWeightBytes(plan);
      function.capacity == 1 && must > 0)
    text += fmt::format(
        "  a token must read {} of weights: overhead {:.2f} %\n",
        formatBytes(must),
        100.0 *
            (static_cast<double>(sum.total()) / static_cast<double>(must) - 1));
  text += fmt::format("  written most by a launch: {}\n\n",
                      largestWriters(function));

  text +=
      fmt::format("  {:<28} {:<8} {:>9} {:>10} {:>10} {:>10} {:>9}\n", "layers",
                  "kind", "launches", "weights", "read", "written", "each");
  for (const Section &section : sections)
    text +=
        fmt::format("  {:<28} {:<8} {:>9} {}",
                    section.layer < 0 ? "none" : rangesText(section.layers),
                    section.kind, section.count, bytesText(section.bytes, sum));
  for (const Section &section : sections) {
    std::string title = "outside the layers";
    if (section.layer >= 0)
      title = fmt::format("layer {}", section.layer);
    if (section.layers.size() > 1)
      title += fmt::format(
          ", and so {}",
          rangesText({section.layers.begin() + 1, section.layers.end()}));
    text += fmt::format("\n  {}\n{:>6}  {:<20} {:>11} {:>6} {:>10} {:>10} "
                        "{:>10} {:>9}\n",
                        title, "no", "op", "grid", "block", "weights", "read",
                        "written", "share");
    for (size_t i = 0; i < section.count; ++i)
      text += launchLine(function, section.first + i, weights, sum);
  }
  return text;
}

std::string planTable(const Manifest &manifest, const Plan &plan,
                      uint64_t stagingBytes) {
  std::string text = fmt::format("plan of {}, {} layers\n", manifest.modelName,
                                 manifest.layers);
  std::string line = "profile:";
  for (const auto &[key, value] : manifest.profile) {
    const std::string item = fmt::format(" {}={}", key, value);
    if (line.size() + item.size() > 100) {
      text += line + "\n";
      line = "        ";
    }
    line += item;
  }
  text += line + "\n\nmemory\n" + memoryTable(plan, stagingBytes);
  for (const Function &function : plan.functions)
    text += functionTable(plan, function);
  return text;
}

} // namespace ds4
