// GoldCheck.cpp - the dump is read whole (it is small); activations are
// compared while they stream out of the trace hook.
#include "runtime/GoldCheck.h"

#include "runtime/Sampler.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>

namespace ds4 {

using Json = nlohmann::json;

//===----------------------------------------------------------------------===//
// Reading a dump
//===----------------------------------------------------------------------===//

namespace {

/// One row of the tensor table.
struct TableEntry {
  std::string dtype;
  std::vector<uint64_t> shape;
  uint64_t offset = 0;

  uint64_t elements() const {
    return std::accumulate(shape.begin(), shape.end(), uint64_t(1),
                           std::multiplies<>());
  }
};

class DumpReader {
public:
  explicit DumpReader(std::filesystem::path path) : path(std::move(path)) {}

  Result<GoldDump> read();

private:
  Result<GoldPrompt> readPrompt(const std::string &name, const Json &json,
                                uint32_t &vocab);
  /// A tensor of the prompt: its values and the size of its last dimensions.
  template <typename T>
  Result<std::vector<T>> values(const std::string &tensor,
                                std::string_view dtype);
  Error wrong(std::string_view what) const {
    return invalidInput(fmt::format("{}: {}; this is not a reference dump",
                                    path.string(), what));
  }

  std::filesystem::path path;
  std::map<std::string, TableEntry> table;
  std::string data;
};

Result<std::string> readFile(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return ioError(fmt::format("cannot open {}", path.string()));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Result<GoldDump> DumpReader::read() {
  DS4_ASSIGN(std::string text, readFile(path));
  DS4_ASSIGN(data,
             readFile(std::filesystem::path(path).replace_extension(".bin")));
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    return wrong("malformed JSON");
  GoldDump dump;
  try {
    for (const Json &tensor : json.at("tensors"))
      table[tensor.at("name").get<std::string>()] = {
          tensor.at("dtype").get<std::string>(),
          tensor.at("shape").get<std::vector<uint64_t>>(),
          tensor.at("offset").get<uint64_t>()};
    for (const auto &[name, prompt] : json.at("prompts").items()) {
      DS4_ASSIGN(GoldPrompt read, readPrompt(name, prompt, dump.vocab));
      dump.prompts.push_back(std::move(read));
    }
  } catch (const Json::exception &error) {
    return wrong(error.what());
  }
  return dump;
}

template <typename T>
Result<std::vector<T>> DumpReader::values(const std::string &tensor,
                                          std::string_view dtype) {
  auto it = table.find(tensor);
  if (it == table.end())
    return wrong(fmt::format("there is no tensor {}", tensor));
  const TableEntry &entry = it->second;
  if (entry.dtype != dtype)
    return wrong(
        fmt::format("tensor {} is {}, not {}", tensor, entry.dtype, dtype));
  uint64_t elements = entry.elements();
  if (entry.offset > data.size() ||
      elements > (data.size() - entry.offset) / sizeof(T))
    return wrong(fmt::format("tensor {} at offset {} ends after the {} bytes "
                             "of the .bin file",
                             tensor, entry.offset, data.size()));
  std::vector<T> result(elements);
  std::memcpy(result.data(), data.data() + entry.offset, elements * sizeof(T));
  return result;
}

Result<GoldPrompt> DumpReader::readPrompt(const std::string &name,
                                          const Json &json, uint32_t &vocab) {
  GoldPrompt prompt;
  prompt.name = name;
  DS4_ASSIGN(prompt.ids, values<int32_t>(name + ".ids", "int32"));
  DS4_ASSIGN(prompt.logits, values<float>(name + ".logits", "float32"));
  if (table.count(name + ".greedy")) {
    DS4_ASSIGN(prompt.greedy, values<int32_t>(name + ".greedy", "int32"));
  }
  const Json &positions = json.at("logit_positions");
  if (positions.is_array()) {
    prompt.logitPositions = positions.get<std::vector<uint32_t>>();
  } else {
    prompt.logitPositions.resize(prompt.ids.size());
    std::iota(prompt.logitPositions.begin(), prompt.logitPositions.end(), 0);
  }
  if (json.contains("capture_positions"))
    prompt.capturePositions =
        json.at("capture_positions").get<std::vector<uint32_t>>();
  for (const auto *list : {&prompt.logitPositions, &prompt.capturePositions})
    if (!std::ranges::is_sorted(*list, std::ranges::less_equal()) ||
        (!list->empty() && list->back() >= prompt.ids.size()))
      return wrong(fmt::format("positions of prompt {} are not ascending below "
                               "its {} tokens",
                               name, prompt.ids.size()));
  uint64_t rows = prompt.logitPositions.size();
  const std::vector<uint64_t> &shape = table.at(name + ".logits").shape;
  if (rows == 0 || shape.size() != 2 || shape[0] != rows || shape[1] == 0)
    return wrong(
        fmt::format("tensor {}.logits is not {} rows of logits", name, rows));
  uint32_t width = static_cast<uint32_t>(shape[1]);
  if (vocab != 0 && width != vocab)
    return wrong(fmt::format("prompt {} has rows of {} logits, others of {}",
                             name, width, vocab));
  vocab = width;

  std::string prefix = name + ".layer";
  if (!prompt.capturePositions.empty())
    for (const auto &[tensor, entry] : table) {
      if (!tensor.starts_with(prefix))
        continue;
      DS4_ASSIGN(std::vector<float> rowValues,
                 values<float>(tensor, "float32"));
      if (entry.shape.empty() ||
          entry.shape[0] != prompt.capturePositions.size())
        return wrong(fmt::format("tensor {} does not have {} rows", tensor,
                                 prompt.capturePositions.size()));
      prompt.activations[tensor.substr(name.size() + 1)] = std::move(rowValues);
    }
  return prompt;
}

//===----------------------------------------------------------------------===//
// Comparing
//===----------------------------------------------------------------------===//

/// log of the sum of exp, in double.
double logSumExp(std::span<const float> row) {
  double top = *std::ranges::max_element(row);
  double sum = 0;
  for (float value : row)
    sum += std::exp(value - top);
  return top + std::log(sum);
}

/// KL(gold || ours) in nats.
double klDivergence(std::span<const float> gold, std::span<const float> ours) {
  double goldNorm = logSumExp(gold), oursNorm = logSumExp(ours);
  double sum = 0;
  for (size_t i = 0; i < gold.size(); ++i) {
    double logGold = gold[i] - goldNorm;
    sum += std::exp(logGold) * (logGold - (ours[i] - oursNorm));
  }
  return sum;
}

/// Largest |a - b|; infinite where one is not a number.
double maxDifference(std::span<const float> a, std::span<const float> b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    double difference = std::abs(double(a[i]) - double(b[i]));
    largest = difference <= largest ? largest : difference;
    if (std::isnan(difference))
      return INFINITY;
  }
  return largest;
}

double largestMagnitude(std::span<const float> row) {
  double largest = 0;
  for (float value : row)
    largest = std::max(largest, std::abs(double(value)));
  return largest;
}

int32_t best(std::span<const float> row) {
  return static_cast<int32_t>(std::ranges::max_element(row) - row.begin());
}

/// Compares the rows of a trace point with those of the dump.
void compareTrace(const GoldPrompt &prompt, const TracePoint &point,
                  const Step &step, std::span<const float> rows,
                  GoldPromptReport &report) {
  auto gold = prompt.activations.find(point.name);
  if (gold == prompt.activations.end() || point.ratio != 1 ||
      gold->second.size() != prompt.capturePositions.size() * point.rowElements)
    return;
  auto it = std::ranges::find(report.activations, point.name,
                              &ActivationDifference::name);
  if (it == report.activations.end())
    it = report.activations.insert(it, {point.name, 0, 0});
  for (size_t i = 0; i < prompt.capturePositions.size(); ++i) {
    int64_t row = int64_t(prompt.capturePositions[i]) - step.start;
    if (row < 0 || row >= step.count)
      continue;
    auto theirs = std::span(gold->second)
                      .subspan(i * point.rowElements, point.rowElements);
    auto ours = rows.subspan(row * point.rowElements, point.rowElements);
    double scale = largestMagnitude(theirs);
    double relative = maxDifference(ours, theirs);
    if (relative > 0)
      relative /= scale; // infinite where gold is all zero
    if (relative > it->relative) {
      it->relative = relative;
      it->position = prompt.capturePositions[i];
    }
  }
}

Result<GoldPromptReport> checkPrompt(Session &session, const GoldPrompt &prompt,
                                     uint32_t vocab) {
  GoldPromptReport report;
  report.name = prompt.name;
  report.tokens = prompt.ids.size();
  report.rows = prompt.logitPositions.size();
  bool traced = false;
  for (const Function &function : session.plan().functions)
    traced |= !function.traces.empty();
  report.activationsSkipped = !prompt.activations.empty() && !traced;

  DS4_TRY(session.rollback(0));
  session.hooks.trace = nullptr;
  if (!prompt.activations.empty() && traced)
    session.hooks.trace = [&](const TracePoint &point, const Step &step,
                              std::span<const float> rows) {
      compareTrace(prompt, point, step, rows, report);
    };
  // The continuation needs the last row, whether or not the dump has it.
  std::vector<uint32_t> rows = prompt.logitPositions;
  uint32_t last = static_cast<uint32_t>(prompt.ids.size() - 1);
  if (rows.back() != last)
    rows.push_back(last);
  Result<Logits> forwarded = session.forward(prompt.ids, rows);
  session.hooks.trace = nullptr;
  if (!forwarded)
    return forwarded.error();
  Logits logits = std::move(*forwarded);

  for (size_t i = 0; i < report.rows; ++i) {
    auto gold = std::span(prompt.logits).subspan(i * vocab, vocab);
    auto ours = logits.row(i);
    double difference = maxDifference(ours, gold);
    if (difference > report.maxLogitDifference) {
      report.maxLogitDifference = difference;
      report.maxLogitPosition = prompt.logitPositions[i];
    }
    report.meanKl += klDivergence(gold, ours) / double(report.rows);
    report.top1 += best(gold) == best(ours);
  }

  report.greedyTokens = prompt.greedy.size();
  for (int32_t token : prompt.greedy) {
    auto row = logits.row(logits.rows() - 1);
    DS4_ASSIGN(int32_t ours, greedyToken(row));
    if (ours != token) {
      report.greedyMargin = double(row[ours]) - double(row[token]);
      break;
    }
    if (++report.greedyEqual == prompt.greedy.size())
      break;
    DS4_ASSIGN(logits, session.forward(std::span(&ours, 1)));
  }
  return report;
}

/// The first difference beyond the tolerance, in the order of computation; or
/// empty.
std::string firstDifference(const GoldPromptReport &prompt,
                            const GoldOptions &limits) {
  double tolerance = limits.tolerance;
  for (const ActivationDifference &it : prompt.activations)
    if (!(it.relative <= tolerance))
      return fmt::format("{}: {} differs by {:.2e} (relative) at position {}",
                         prompt.name, it.name, it.relative, it.position);
  if (limits.kl) {
    if (!(prompt.meanKl <= *limits.kl))
      return fmt::format("{}: mean KL of the logits is {:.2e}", prompt.name,
                         prompt.meanKl);
    return {};
  }
  if (!(prompt.maxLogitDifference <= tolerance))
    return fmt::format("{}: logits differ by {:.2e} at position {}",
                       prompt.name, prompt.maxLogitDifference,
                       prompt.maxLogitPosition);
  if (prompt.greedyEqual < prompt.greedyTokens &&
      prompt.greedyMargin > 2 * tolerance)
    return fmt::format("{}: greedy token {} differs; our logits prefer ours by "
                       "{:.2e}",
                       prompt.name, prompt.greedyEqual, prompt.greedyMargin);
  return {};
}

} // namespace

Result<GoldDump> readGoldDump(const std::filesystem::path &json) {
  return DumpReader(json).read();
}

Status checkVocabulary(const GoldDump &dump, const Session &session) {
  if (dump.vocab != session.vocab())
    return invalidInput(
        fmt::format("the dump has {} logits a row, the bundle's model {}: it "
                    "is of another model",
                    dump.vocab, session.vocab()));
  return Status::ok();
}

bool GoldReport::good() const {
  return std::ranges::all_of(prompts, [&](const GoldPromptReport &prompt) {
    return firstDifference(prompt, limits).empty();
  });
}

Result<GoldReport> checkGold(Session &session, const GoldDump &dump,
                             const GoldOptions &options) {
  DS4_TRY(checkVocabulary(dump, session));
  GoldReport report;
  report.limits = options;
  for (const GoldPrompt &prompt : dump.prompts) {
    DS4_ASSIGN(GoldPromptReport checked,
               checkPrompt(session, prompt, dump.vocab));
    report.prompts.push_back(std::move(checked));
  }
  return report;
}

std::string goldReportText(const GoldReport &report) {
  std::string text = fmt::format(
      "{:<10} {:>7} {:>6} {:>13} {:>6} {:>10} {:>11} {:>8}\n", "prompt",
      "tokens", "rows", "max |d logit|", "at", "mean KL", "top-1", "greedy");
  bool skipped = false;
  for (const GoldPromptReport &it : report.prompts) {
    text += fmt::format("{:<10} {:>7} {:>6} {:>13.2e} {:>6} {:>10.2e} {:>11} "
                        "{:>8}\n",
                        it.name, it.tokens, it.rows, it.maxLogitDifference,
                        it.maxLogitPosition, it.meanKl,
                        fmt::format("{}/{}", it.top1, it.rows),
                        fmt::format("{}/{}", it.greedyEqual, it.greedyTokens));
    skipped |= it.activationsSkipped;
  }
  for (const GoldPromptReport &it : report.prompts) {
    if (it.activations.empty())
      continue;
    text += fmt::format("\nactivations of {}: max |ours - gold| / max |gold| "
                        "of a row, largest over the captured rows",
                        it.name);
    std::string_view layer;
    for (const ActivationDifference &activation : it.activations) {
      std::string_view name = activation.name;
      size_t dot = std::min(name.find('.'), name.size() - 1);
      if (name.substr(0, dot) != layer) {
        layer = name.substr(0, dot);
        text += fmt::format("\n  {:<8}", layer);
      }
      text +=
          fmt::format(" {} {:.1e}", name.substr(dot + 1), activation.relative);
    }
    text += '\n';
  }
  if (skipped)
    text += "\nactivations were not compared: the bundle has no trace points; "
            "rebuild it with ds4c --trace-points=true\n";
  std::string first;
  for (const GoldPromptReport &it : report.prompts)
    if (first.empty())
      first = firstDifference(it, report.limits);
  std::string limit = fmt::format("{:.1e}", report.limits.tolerance);
  if (report.limits.kl)
    limit += fmt::format(" (mean KL {:.1e})", *report.limits.kl);
  if (first.empty())
    text += fmt::format("\nall within {}\n", limit);
  else
    text += fmt::format("\nfirst difference beyond {}: {}\n", limit, first);
  return text;
}

} // namespace ds4
