// GoldCheck.h - compares a session with a reference dump: logits, activations
// and the greedy continuation of each prompt. Dumps are NAME.json (a tensor
// table) with NAME.bin beside it; models/ds4-tiny/README.md says what they
// hold.
#ifndef DS4_RUNTIME_GOLDCHECK_H
#define DS4_RUNTIME_GOLDCHECK_H

#include "runtime/Result.h"
#include "runtime/Session.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ds4 {

/// A prompt of a dump.
struct GoldPrompt {
  std::string name;
  std::vector<int32_t> ids;
  std::vector<uint32_t> logitPositions; ///< ascending
  std::vector<float> logits;            ///< [logitPositions, vocab]
  std::vector<uint32_t> capturePositions;
  /// "layer3.ffn_out" -> [capturePositions, row]; "streams" rows are flattened.
  std::map<std::string, std::vector<float>> activations;
  std::vector<int32_t> greedy; ///< what follows the prompt
};

struct GoldDump {
  uint32_t vocab = 0;
  std::vector<GoldPrompt> prompts;
};

/// Errors name the file and the tensor or field that is wrong.
Result<GoldDump> readGoldDump(const std::filesystem::path &json);

/// Error: the dump's rows of logits are not of the session's vocabulary.
Status checkVocabulary(const GoldDump &dump, const Session &session);

struct GoldOptions {
  /// Largest allowed difference: absolute for logits, relative for activations.
  double tolerance = 1e-3;
  /// Set: logits are judged by their mean KL divergence instead, which may be
  /// at most this, and greedy tokens are only reported: for dumps of quantised
  /// weights made without quantised activations.
  std::optional<double> kl;
};

/// Largest difference of an activation over the captured rows: per row
/// max |ours - gold| / max |gold|.
struct ActivationDifference {
  std::string name;
  double relative = 0;
  uint32_t position = 0; ///< where it is largest
};

struct GoldPromptReport {
  std::string name;
  size_t tokens = 0, rows = 0;
  double maxLogitDifference = 0;
  uint32_t maxLogitPosition = 0;
  double meanKl = 0; ///< KL(gold || ours), nats, mean over rows
  size_t top1 = 0;   ///< rows whose best token is gold's
  size_t greedyEqual = 0, greedyTokens = 0; ///< up to the first difference
  /// By how much our logits prefer our token where the continuations part.
  double greedyMargin = 0;
  /// In the order of the plan; empty if dump or bundle has none.
  std::vector<ActivationDifference> activations;
  bool activationsSkipped = false; ///< the dump has some, the bundle none
};

struct GoldReport {
  GoldOptions limits;
  std::vector<GoldPromptReport> prompts;

  /// Whether every logit and activation is within the tolerance, and no greedy
  /// token differs where our logits prefer ours by more than twice the
  /// tolerance (less is what the tolerance allows). With GoldOptions::kl, what
  /// is said there.
  bool good() const;
};

/// Runs every prompt from position 0: prefill over its ids, then greedy
/// decoding. Sets and clears session.hooks.trace.
Result<GoldReport> checkGold(Session &session, const GoldDump &dump,
                             const GoldOptions &options);

/// Tables for people; says what the first difference is.
std::string goldReportText(const GoldReport &report);

} // namespace ds4

#endif // DS4_RUNTIME_GOLDCHECK_H
