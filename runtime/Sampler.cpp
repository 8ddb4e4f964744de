// Sampler.cpp - filters on a list of candidates that is ascending by id before
// and after each of them, so that no sum depends on how a library sorts.
#include "runtime/Sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ds4 {
namespace {

struct Candidate {
  TokenId id;
  float logit;
};

/// The total order of candidates: higher logit, then lower id.
bool ranksBefore(const Candidate &a, const Candidate &b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

void sortById(std::vector<Candidate> &candidates) {
  std::ranges::sort(candidates, {}, &Candidate::id);
}

/// e^x for x <= 0, by the same IEEE operations everywhere, where libraries
/// differ in the last bit: x = k ln 2 + r with |r| <= ln(2) / 2, and the
/// Taylor series of e^r up to r^13 (the rest is below 5e-18).
double expNonPositive(double x) {
  if (x < -745) // below half the smallest double
    return 0;
  double k = std::floor(x * 1.4426950408889634 + 0.5);
  // ln 2 in two parts; the upper has 32 bits, so that k times it is exact.
  double r = (x - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33;
  double sum = 1;
  for (int term = 13; term > 0; --term)
    sum = 1 + r / term * sum;
  return std::ldexp(sum, static_cast<int>(k));
}

float highestLogit(const std::vector<Candidate> &candidates) {
  return std::ranges::min(candidates, ranksBefore).logit;
}

void keepTopK(std::vector<Candidate> &candidates, size_t k) {
  if (k >= candidates.size())
    return;
  std::ranges::nth_element(
      candidates, candidates.begin() + static_cast<ptrdiff_t>(k), ranksBefore);
  candidates.resize(k);
  sortById(candidates);
}

void keepTopP(std::vector<Candidate> &candidates, double p) {
  double highest = highestLogit(candidates);
  auto weight = [&](const Candidate &candidate) {
    return expNonPositive(candidate.logit - highest);
  };
  double total = 0;
  for (const Candidate &candidate : candidates)
    total += weight(candidate);
  // A few tokens carry most of the probability: sort no more than needed.
  std::vector<Candidate> ranked = candidates;
  size_t sorted = 0, kept = 0;
  double sum = 0;
  while (kept < ranked.size()) {
    if (kept == sorted) {
      size_t more = std::min(ranked.size(), std::max<size_t>(64, 4 * sorted));
      std::ranges::partial_sort(ranked.begin() + static_cast<ptrdiff_t>(sorted),
                                ranked.begin() + static_cast<ptrdiff_t>(more),
                                ranked.end(), ranksBefore);
      sorted = more;
    }
    sum += weight(ranked[kept++]);
    if (sum >= p * total)
      break;
  }
  ranked.resize(kept);
  sortById(ranked);
  candidates = std::move(ranked);
}

void keepMinP(std::vector<Candidate> &candidates, double p) {
  double highest = highestLogit(candidates);
  std::erase_if(candidates, [&](const Candidate &candidate) {
    return expNonPositive(candidate.logit - highest) < p;
  });
}

} // namespace

uint64_t splitMix64(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

Result<TokenId> greedyToken(std::span<const float> logits) {
  size_t best = 0;
  for (size_t index = 0; index < logits.size(); ++index) {
    if (std::isnan(logits[index]))
      return invalidInput(fmt::format(
          "logit {} of {} is NaN: a kernel or a weight is wrong, run with "
          "--check to find the layer",
          index, logits.size()));
    if (logits[index] > logits[best])
      best = index;
  }
  if (logits.empty() || logits[best] == -std::numeric_limits<float>::infinity())
    return invalidInput(fmt::format(
        "no token can be chosen: all {} logits are -inf", logits.size()));
  return static_cast<TokenId>(best);
}

Result<Sampler> Sampler::create(const SamplerOptions &options) {
  // Written so that NaN is refused too.
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature))
    return invalidInput(
        fmt::format("temperature {} is not a finite number of at least 0",
                    options.temperature));
  for (auto [name, value] :
       {std::pair("top-p", options.topP), std::pair("min-p", options.minP)})
    if (!(value >= 0 && value <= 1))
      return invalidInput(
          fmt::format("{} {} is not between 0 and 1", name, value));
  return Sampler(options);
}

Result<std::vector<TokenProbability>>
Sampler::distribution(std::span<const float> logits) const {
  DS4_ASSIGN(TokenId best, greedyToken(logits)); // checks the row too
  if (options.temperature == 0)
    return std::vector{TokenProbability{best, 1}};
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (logits[static_cast<size_t>(best)] == kInfinity)
    return invalidInput(fmt::format(
        "logit {} of {} is +inf: it has no probability", best, logits.size()));

  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  for (size_t index = 0; index < logits.size(); ++index)
    if (logits[index] != -kInfinity)
      candidates.push_back({static_cast<TokenId>(index), logits[index]});
  if (options.topK > 0)
    keepTopK(candidates, options.topK);
  if (options.topP < 1)
    keepTopP(candidates, options.topP);
  if (options.minP > 0)
    keepMinP(candidates, options.minP);

  std::vector<TokenProbability> result;
  result.reserve(candidates.size());
  double highest = highestLogit(candidates), total = 0;
  for (const Candidate &candidate : candidates) {
    double weight =
        expNonPositive((candidate.logit - highest) / options.temperature);
    if (weight == 0) // too rare for a double
      continue;
    result.push_back({candidate.id, weight});
    total += weight;
  }
  for (TokenProbability &entry : result)
    entry.probability /= total;
  return result;
}

Result<TokenId> Sampler::sample(std::span<const float> logits,
                                uint64_t position) const {
  if (options.temperature == 0)
    return greedyToken(logits);
  DS4_ASSIGN(auto entries, distribution(logits));
  double random =
      static_cast<double>(splitMix64(options.seed, position) >> 11) * 0x1p-53;
  // The entry in whose part of [0, 1) the number falls. Rounding may leave
  // the sum a little below 1: the last token takes the rest.
  double sum = 0;
  TokenId drawn = entries.front().id;
  for (const TokenProbability &entry : entries) {
    drawn = entry.id;
    sum += entry.probability;
    if (random < sum)
      break;
  }
  return drawn;
}

} // namespace ds4
