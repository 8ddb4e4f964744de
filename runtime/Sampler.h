// Sampler.h - chooses the next token from a row of logits. It has no state:
// the choice depends on the logits, the options and the position alone, so it
// survives rollback, and a drafted token may be accepted exactly where it
// equals the choice of the target model.
#ifndef DS4_RUNTIME_SAMPLER_H
#define DS4_RUNTIME_SAMPLER_H

#include "runtime/Result.h"
#include "runtime/Tokenizer.h"

#include <cstdint>
#include <span>
#include <vector>

namespace ds4 {

/// How to sample. The defaults sample from the model's own distribution, as
/// its authors recommend.
struct SamplerOptions {
  float temperature = 1; ///< >= 0; 0 is greedy, whatever the filters say
  uint32_t topK = 0;     ///< keep this many tokens; 0: all
  float topP = 1;        ///< [0, 1]; keep this much probability; 1: all
  float minP = 0;        ///< [0, 1]; part of the best token's probability
  uint64_t seed = 0;
};

/// A token that may be drawn, and how often it is.
struct TokenProbability {
  TokenId id;
  double probability;
};

/// The token of the highest logit, the lowest id among equals (-0 equals +0).
/// Fails on NaN, naming the first index, on an empty row and where all logits
/// are -inf.
Result<TokenId> greedyToken(std::span<const float> logits);

/// Filters in llama.cpp's order, each on what the one before has left:
///  1. top-k: the k highest logits, lower ids first among equals;
///  2. top-p: of the tokens in that order, the fewest whose probabilities (at
///     temperature 1) add up to p of what is left, at least one;
///  3. min-p: tokens of at least p times the probability of the best one;
///  4. temperature: probabilities of softmax(logit / temperature).
/// Tokens of logit -inf are never drawn.
///
/// The draw is the same on every platform: exp is a fixed sequence of double
/// operations, sums go in ascending order of ids (top-p: of rank), and the
/// random number is the upper 53 bits of output number `position` of the
/// SplitMix64 generator that starts at `seed`.
class Sampler {
public:
  /// Refuses options out of range.
  static Result<Sampler> create(const SamplerOptions &options);

  /// The token to follow position `position` of the sequence. Fails as
  /// greedyToken does, and on +inf unless greedy.
  Result<TokenId> sample(std::span<const float> logits,
                         uint64_t position) const;

  /// What sample() draws from, ascending by id; no probability is 0. One
  /// token if greedy.
  Result<std::vector<TokenProbability>>
  distribution(std::span<const float> logits) const;

private:
  explicit Sampler(const SamplerOptions &options) : options(options) {}

  SamplerOptions options;
};

/// Output number `index` (from 0) of SplitMix64 started at `seed`.
uint64_t splitMix64(uint64_t seed, uint64_t index);

} // namespace ds4

#endif // DS4_RUNTIME_SAMPLER_H
