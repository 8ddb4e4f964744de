// Evaluation.cpp - chunks are cut into pieces whose logits and activations fit
// into a fixed amount of memory; statistics are sums in double, in the order of
// tokens, so that they do not depend on the cut.
#include "runtime/Evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ds4 {
namespace {

/// Logits and activations of a piece, over both sessions.
constexpr uint64_t kPieceBytes = 64 << 20;

/// log of the sum of exp, in double.
double logSumExp(std::span<const float> row) {
  const double top = *std::ranges::max_element(row);
  double sum = 0;
  for (float value : row)
    sum += std::exp(value - top);
  return top + std::log(sum);
}

/// The first of the largest logits.
uint32_t bestOf(std::span<const float> row) {
  return static_cast<uint32_t>(std::ranges::max_element(row) - row.begin());
}

/// The rows of each trace point over tokens, by name.
using Traces = std::map<std::string, std::vector<float>>;

/// Bytes of logits and traced activations of a token.
uint64_t bytesPerToken(const Session &session) {
  uint64_t elements = session.vocab(), traced = 0;
  for (const Function &function : session.plan().functions) {
    uint64_t here = 0;
    for (const TracePoint &point : function.traces)
      here += point.rowElements;
    traced = std::max(traced, here);
  }
  return (elements + traced) * sizeof(float);
}

bool hasTraces(const Session &session) {
  return std::ranges::any_of(
      session.plan().functions,
      [](const Function &function) { return !function.traces.empty(); });
}

/// forward(), with the activations of all tokens if they are wanted.
Result<Logits> forwardTraced(Session &session, std::span<const TokenId> ids,
                             std::span<const uint32_t> rows, Traces *traces) {
  if (traces)
    session.hooks.trace = [&](const TracePoint &point, const Step &,
                              std::span<const float> values) {
      if (point.ratio != 1)
        return;
      std::vector<float> &all = (*traces)[point.name];
      all.insert(all.end(), values.begin(), values.end());
    };
  Result<Logits> logits = session.forward(ids, rows);
  session.hooks.trace = nullptr;
  return logits;
}

/// Elements of a row of a trace point; 0: there is none of this name.
uint64_t rowElements(const Session &session, std::string_view name) {
  for (const Function &function : session.plan().functions)
    for (const TracePoint &point : function.traces)
      if (point.name == name && point.ratio == 1)
        return point.rowElements;
  return 0;
}

/// Names of the trace points in the order of the plan.
std::vector<std::string> pointNames(const Session &session) {
  std::vector<std::string> names;
  for (const Function &function : session.plan().functions)
    for (const TracePoint &point : function.traces)
      if (std::ranges::find(names, point.name) == names.end())
        names.push_back(point.name);
  return names;
}

/// Runs chunks piece by piece.
class Evaluator {
public:
  Evaluator(Session &session, const TextChunks &chunks,
            const EvaluationFiles &files)
      : session(session), chunks(chunks), files(files), other(files.other),
        traced(other && hasTraces(session) && hasTraces(*other)) {}

  Result<Evaluation> run(const EvaluationProgress &progress);

private:
  Status runPiece(std::span<const TokenId> chunk, uint32_t first,
                  uint32_t count);
  uint32_t pieceTokens() const;

  /// Of a row that predicts `next`.
  void compare(std::span<const float> reference, uint32_t best, double loss,
               std::span<const float> ours);

  Session &session;
  const TextChunks &chunks;
  const EvaluationFiles &files;
  Session *other;
  bool traced;
  std::vector<std::string> names;
  Evaluation result;
};

uint32_t Evaluator::pieceTokens() const {
  const uint64_t bytes =
      bytesPerToken(session) + (other ? bytesPerToken(*other) : 0);
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(kPieceBytes / bytes, 1, chunks.length));
}

void Evaluator::compare(std::span<const float> reference, uint32_t best,
                        double loss, std::span<const float> ours) {
  result.theirs.add(loss);
  result.logits.add(reference, best, ours);
}

Status Evaluator::runPiece(std::span<const TokenId> chunk, uint32_t first,
                           uint32_t count) {
  const std::span<const TokenId> ids = chunk.subspan(first, count);
  std::vector<uint32_t> rows; // in the piece
  for (uint32_t i = 0; i < count; ++i)
    if (first + i >= chunks.firstCounted() && first + i + 1 < chunk.size())
      rows.push_back(i);

  Traces ourTraces, theirTraces;
  DS4_ASSIGN(const Logits ours,
             forwardTraced(session, ids, rows, traced ? &ourTraces : nullptr));
  for (size_t i = 0; i < rows.size(); ++i) {
    const double loss = lossOf(ours.row(i), chunk[first + rows[i] + 1]);
    result.ours.add(loss);
    if (files.save)
      DS4_TRY(files.save->add(ours.row(i), loss));
    if (files.saved) {
      DS4_ASSIGN(const SavedRow row, files.saved->next());
      compare(row.logits, row.best, row.loss, ours.row(i));
    }
  }
  if (!other)
    return Status::ok();
  DS4_ASSIGN(const Logits theirs,
             forwardTraced(*other, ids, rows, traced ? &theirTraces : nullptr));
  for (size_t i = 0; i < rows.size(); ++i) {
    compare(theirs.row(i), bestOf(theirs.row(i)),
            lossOf(theirs.row(i), chunk[first + rows[i] + 1]), ours.row(i));
  }
  for (const std::string &name : names)
    if (ourTraces[name].size() == theirTraces[name].size())
      result.activations.add(name, theirTraces[name], ourTraces[name]);
  return Status::ok();
}

Result<Evaluation> Evaluator::run(const EvaluationProgress &progress) {
  for (const Session *it : {static_cast<const Session *>(&session),
                            static_cast<const Session *>(other)}) {
    if (it && it->context() < chunks.length)
      return invalidInput(fmt::format(
          "chunks of {} tokens exceed the context of {} of the bundle: use "
          "--chunk-size={}",
          chunks.length, it->context(), it->context()));
    if (it && it->vocab() != session.vocab())
      return invalidInput(
          fmt::format("the models have vocabularies of {} and {} tokens and "
                      "cannot be compared",
                      session.vocab(), it->vocab()));
  }
  if (traced)
    names = pointNames(session);
  const uint32_t piece = pieceTokens();
  uint64_t done = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    DS4_TRY(session.rollback(0));
    if (other)
      DS4_TRY(other->rollback(0));
    for (uint32_t first = 0; first < chunks.length; first += piece) {
      const uint32_t count = std::min(piece, chunks.length - first);
      DS4_TRY(runPiece(chunks[i], first, count));
      done += count;
      if (progress)
        progress(done, chunks.ids.size(), result);
    }
  }
  return std::move(result);
}

/// One prompt of a dump, in one go: dumps are small.
Status evaluatePrompt(Session &session, const GoldPrompt &prompt,
                      Evaluation &result) {
  const uint32_t vocab = session.vocab();
  const bool traced = !prompt.activations.empty() && hasTraces(session);
  DS4_TRY(session.rollback(0));
  Traces traces;
  DS4_ASSIGN(const Logits ours,
             forwardTraced(session, prompt.ids, prompt.logitPositions,
                           traced ? &traces : nullptr));
  for (size_t i = 0; i < ours.rows(); ++i) {
    const std::span<const float> gold =
        std::span(prompt.logits).subspan(i * vocab, vocab);
    result.logits.add(gold, bestOf(gold), ours.row(i));
    const size_t next = prompt.logitPositions[i] + 1;
    if (next == prompt.ids.size())
      continue;
    result.ours.add(lossOf(ours.row(i), prompt.ids[next]));
    result.theirs.add(lossOf(gold, prompt.ids[next]));
  }
  if (!traced)
    return Status::ok();
  for (const std::string &name : pointNames(session)) {
    const auto gold = prompt.activations.find(name);
    const uint64_t width = rowElements(session, name);
    if (gold == prompt.activations.end() ||
        gold->second.size() != prompt.capturePositions.size() * width)
      continue;
    for (size_t i = 0; i < prompt.capturePositions.size(); ++i)
      result.activations.add(
          name, std::span(gold->second).subspan(i * width, width),
          std::span(traces[name])
              .subspan(prompt.capturePositions[i] * width, width));
  }
  return Status::ok();
}

} // namespace

double lossOf(std::span<const float> logits, TokenId next) {
  return logSumExp(logits) - logits[static_cast<size_t>(next)];
}

void Perplexity::add(double loss) {
  ++count;
  sum += loss;
  squares += loss * loss;
}

double Perplexity::value() const {
  return std::exp(sum / static_cast<double>(count));
}

double Perplexity::error() const {
  if (count < 2)
    return 0;
  const auto n = static_cast<double>(count);
  const double mean = sum / n;
  const double variance = std::max(0.0, squares / n - mean * mean);
  return value() * std::sqrt(variance / (n - 1));
}

void LogitComparison::add(std::span<const float> reference, uint32_t best,
                          std::span<const float> ours) {
  const double referenceNorm = logSumExp(reference), oursNorm = logSumExp(ours);
  double divergence = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double logReference = reference[i] - referenceNorm;
    divergence +=
        std::exp(logReference) * (logReference - (ours[i] - oursNorm));
  }
  sum += divergence;
  kl.push_back(static_cast<float>(divergence));
  agreeing += best == bestOf(ours);
}

double LogitComparison::meanKl() const {
  return kl.empty() ? 0 : sum / static_cast<double>(kl.size());
}

double LogitComparison::klQuantile(double share) const {
  if (kl.empty())
    return 0;
  std::vector<float> sorted = kl;
  std::ranges::sort(sorted);
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

void ActivationComparison::add(const std::string &name,
                               std::span<const float> reference,
                               std::span<const float> ours) {
  auto [it, isNew] = sums.try_emplace(name);
  if (isNew)
    order.push_back(name);
  for (size_t i = 0; i < reference.size(); ++i) {
    const double theirs = reference[i], difference = ours[i] - theirs;
    it->second.differences += difference * difference;
    it->second.reference += theirs * theirs;
  }
}

std::string ActivationComparison::table() const {
  // Names are LAYER.POINT.
  std::vector<std::string> rows, columns;
  auto split = [](const std::string &name) {
    const size_t dot = std::min(name.find('.'), name.size());
    return std::pair(name.substr(0, dot),
                     name.substr(std::min(dot + 1, name.size())));
  };
  auto note = [](std::vector<std::string> &list, const std::string &item) {
    if (std::ranges::find(list, item) == list.end())
      list.push_back(item);
  };
  for (const std::string &name : order) {
    note(rows, split(name).first);
    note(columns, split(name).second);
  }
  if (rows.empty())
    return {};
  std::string text = fmt::format("{:<10}", "layer");
  for (const std::string &column : columns)
    text += fmt::format(" {:>9}", column);
  for (const std::string &row : rows) {
    text += fmt::format("\n{:<10}", row);
    for (const std::string &column : columns) {
      const auto it = sums.find(row + "." + column);
      text += it == sums.end()
                  ? fmt::format(" {:>9}", "")
                  : fmt::format(" {:>9.2e}", std::sqrt(it->second.differences /
                                                       it->second.reference));
    }
  }
  return text + "\n";
}

Result<Evaluation> evaluateText(Session &session, const TextChunks &chunks,
                                const EvaluationFiles &files,
                                const EvaluationProgress &progress) {
  return Evaluator(session, chunks, files).run(progress);
}

Result<Evaluation> evaluateDump(Session &session, const GoldDump &dump,
                                const EvaluationProgress &progress) {
  DS4_TRY(checkVocabulary(dump, session));
  uint64_t done = 0, total = 0;
  for (const GoldPrompt &prompt : dump.prompts)
    total += prompt.ids.size();
  Evaluation result;
  for (const GoldPrompt &prompt : dump.prompts) {
    DS4_TRY(evaluatePrompt(session, prompt, result));
    done += prompt.ids.size();
    if (progress)
      progress(done, total, result);
  }
  return result;
}

} // namespace ds4
