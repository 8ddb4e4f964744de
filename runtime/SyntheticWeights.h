// SyntheticWeights.h - random weights of a plan's formats and sizes, for
// measuring where the model file is not. What such a model says is nonsense,
// but finite, and its routing is random.
#ifndef DS4_RUNTIME_SYNTHETICWEIGHTS_H
#define DS4_RUNTIME_SYNTHETICWEIGHTS_H

#include "runtime/WeightSource.h"

#include <cstdint>

namespace ds4 {

/// A few megabytes of random rows are made for each format and row length, and
/// copied over the weights again and again, each from another row on. Same
/// seed, same bytes on every machine.
class SyntheticWeights final : public WeightSource {
public:
  explicit SyntheticWeights(uint64_t seed) : seed(seed) {}

  std::string name() const override;
  Result<DecodeTables> tables(const Plan &plan) const override;
  Result<LoadStats> load(Device &device, std::span<const WeightTarget> targets,
                         const LoadOptions &options) const override;

private:
  uint64_t seed;
};

} // namespace ds4

#endif // DS4_RUNTIME_SYNTHETICWEIGHTS_H
