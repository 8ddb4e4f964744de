// WeightMap.h - which tensors of a GGUF file the forward pass needs, by role:
// names, shapes and storage formats, checked against the hyper-parameters.
#ifndef DS4_MODELS_WEIGHTMAP_H
#define DS4_MODELS_WEIGHTMAP_H

#include "models/Hparams.h"
#include "runtime/Gguf.h"
#include "runtime/WeightFormats.h"

#include <optional>
#include <string>
#include <vector>

namespace ds4 {

/// A tensor of the file. Shape is row-major, the reverse of GGUF's.
struct WeightRef {
  std::string name;
  std::vector<int64_t> shape;
  WeightFormat format = WeightFormat::f32;
};

/// fn, scale and base of a hyper-connection site.
struct HyperConnectionWeights {
  WeightRef fn, scale, base;
};

/// A compressor: wkv, wgate, ape, norm.
struct CompressorWeights {
  WeightRef kv, gate, ape, norm;
};

struct LayerWeights {
  HyperConnectionWeights hcAttn, hcFfn;
  WeightRef attnNorm, ffnNorm;
  WeightRef qA, qANorm, qB, kv, kvNorm, outputA, outputB, sinks;
  std::optional<CompressorWeights> compressor;      ///< ratio > 0
  std::optional<CompressorWeights> indexCompressor; ///< layers with an indexer
  std::optional<WeightRef> indexQB, indexProj;
  WeightRef router;
  std::optional<WeightRef> routerBias; ///< score-routed layers
  std::optional<WeightRef> hashTable;  ///< hash-routed layers
  WeightRef gateExperts, upExperts, downExperts;
  WeightRef gateShared, upShared, downShared;
};

struct ModelWeights {
  WeightRef embedding, outputNorm, output;
  HyperConnectionWeights head;
  std::vector<LayerWeights> layers;
};

/// Errors name the tensor, what the file has and what was expected.
Result<ModelWeights> mapWeights(const Gguf &gguf, const Hparams &hparams);

/// Every tensor of `weights`, head and embedding first.
std::vector<const WeightRef *> allWeights(const ModelWeights &weights);

} // namespace ds4

#endif // DS4_MODELS_WEIGHTMAP_H
