// Evaluation.h - the quality of a quantised model over a text: perplexity, and
// how far its logits and activations are from those of another session or of a
// reference dump. Memory is bounded: logits live for a piece of a chunk.
#ifndef DS4_RUNTIME_EVALUATION_H
#define DS4_RUNTIME_EVALUATION_H

#include "runtime/GoldCheck.h"
#include "runtime/SavedLogits.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ds4 {

/// Negative log-likelihood of `next`, which `logits` predict, in nats.
double lossOf(std::span<const float> logits, TokenId next);

/// Mean negative log-likelihood of tokens, in nats.
class Perplexity {
public:
  /// Counts a token's negative log-likelihood.
  void add(double loss);

  uint64_t tokens() const { return count; }
  /// exp of the mean.
  double value() const;
  /// Standard error of value(), to first order; 0 for less than two tokens.
  double error() const;

private:
  uint64_t count = 0;
  double sum = 0, squares = 0;
};

/// How far rows of logits are from a reference's.
class LogitComparison {
public:
  /// `best`: the reference's best token.
  void add(std::span<const float> reference, uint32_t best,
           std::span<const float> ours);

  uint64_t rows() const { return kl.size(); }
  /// KL(reference || ours) in nats: mean, and the smallest value that at least
  /// `share` of the rows do not exceed (0.99: p99, 1: the largest).
  double meanKl() const;
  double klQuantile(double share) const;
  /// Rows whose best token is the reference's.
  uint64_t top1() const { return agreeing; }

private:
  std::vector<float> kl; ///< a row
  double sum = 0;
  uint64_t agreeing = 0;
};

/// How far activations are from a reference's, by the name of their trace
/// point: sqrt(sum (ours - reference)^2 / sum reference^2) over all rows.
class ActivationComparison {
public:
  void add(const std::string &name, std::span<const float> reference,
           std::span<const float> ours);

  bool empty() const { return sums.empty(); }
  /// A table, one line a layer and one column a point of a layer; empty if
  /// nothing was compared.
  std::string table() const;

private:
  struct Sums {
    double differences = 0, reference = 0;
  };
  std::map<std::string, Sums> sums;
  std::vector<std::string> order; ///< of first appearance
};

/// What was measured.
struct Evaluation {
  Perplexity ours, theirs; ///< theirs: of the reference
  LogitComparison logits;
  ActivationComparison activations;
};

/// After each piece: tokens done, of all, and what is known so far.
using EvaluationProgress =
    std::function<void(uint64_t done, uint64_t total, const Evaluation &)>;

/// What a session is held against over a text, at most one; and where its own
/// logits go.
struct EvaluationFiles {
  Session *other = nullptr;           ///< its logits and activations
  SavedLogitsReader *saved = nullptr; ///< passed check(), at its first row
  SavedLogitsWriter *save = nullptr;  ///< takes the logits of `session`
};

/// Runs all chunks, each from position 0, through `session` and what it is held
/// against. Activations are compared where both bundles have a trace point of
/// that name. Errors: a chunk longer than a context; another vocabulary; what
/// forward() refuses; a damaged file.
Result<Evaluation> evaluateText(Session &session, const TextChunks &chunks,
                                const EvaluationFiles &files,
                                const EvaluationProgress &progress = nullptr);

/// The same over the prompts of a dump, whose logits and activations are the
/// reference; perplexities count the prompts' own tokens where the dump has
/// logits.
Result<Evaluation> evaluateDump(Session &session, const GoldDump &dump,
                                const EvaluationProgress &progress = nullptr);

} // namespace ds4

#endif // DS4_RUNTIME_EVALUATION_H
