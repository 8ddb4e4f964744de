// Hparams.h - hyper-parameters of a `deepseek4` GGUF file.
#ifndef DS4_MODELS_HPARAMS_H
#define DS4_MODELS_HPARAMS_H

#include "runtime/Gguf.h"
#include "runtime/Result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ds4 {

/// Names follow the GGUF keys; sizes are elements.
struct Hparams {
  std::string name; ///< general.name, or the file's name
  int64_t layers = 0, hidden = 0, vocab = 0;
  int64_t contextLength = 0; ///< positions that the model was trained for
  int64_t heads = 0, headDim = 0, ropeDims = 0;
  int64_t qLoraRank = 0, outputLoraRank = 0, outputGroups = 0;
  int64_t window = 0; ///< raw rows that a query sees, its own included
  int64_t indexHeads = 0, indexDim = 0, indexTopK = 0;
  int64_t experts = 0, expertsUsed = 0, sharedExperts = 0, expertWidth = 0;
  int64_t hashLayers = 0; ///< the first layers route by token id
  int64_t streams = 0, sinkhornIterations = 0;
  double rmsEps = 0, hcEps = 0, expertScale = 0;
  double ropeBase = 0, compressRopeBase = 0;
  double yarnFactor = 1, yarnBetaFast = 32, yarnBetaSlow = 1;
  int64_t yarnOriginal = 0;
  std::vector<int64_t> compressRatios;   ///< [layers]; 0: sliding window only
  std::vector<double> clampExperts;      ///< [layers]
  std::vector<double> clampSharedExpert; ///< [layers]

  /// Layers whose windows overlap and whose rows an indexer selects (CSA).
  bool hasIndexer(int64_t layer) const { return compressRatios[layer] == 4; }
};

/// Errors: another architecture, a missing key, a value that the graph cannot
/// express; each names the key, what was found and what was expected.
Result<Hparams> readHparams(const Gguf &gguf);

} // namespace ds4

#endif // DS4_MODELS_HPARAMS_H
