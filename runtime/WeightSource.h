// WeightSource.h - where a session's weights come from: a model file, or
// nowhere (SyntheticWeights.h).
#ifndef DS4_RUNTIME_WEIGHTSOURCE_H
#define DS4_RUNTIME_WEIGHTSOURCE_H

#include "runtime/DecodeTables.h"
#include "runtime/WeightLoader.h"

#include <span>
#include <string>

namespace ds4 {

class WeightSource {
public:
  virtual ~WeightSource() = default;

  /// For messages.
  virtual std::string name() const = 0;
  /// Decode tables of every weight that Plan::books and Plan::rotations name.
  virtual Result<DecodeTables> tables(const Plan &plan) const = 0;
  /// Fills `targets`.
  virtual Result<LoadStats> load(Device &device,
                                 std::span<const WeightTarget> targets,
                                 const LoadOptions &options) const = 0;
};

} // namespace ds4

#endif // DS4_RUNTIME_WEIGHTSOURCE_H
