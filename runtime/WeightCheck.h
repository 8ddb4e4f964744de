// WeightCheck.h - refuses damaged weights while they stream in: scale bytes,
// scales and values that no encoder writes. What the bytes mean is not known
// here beyond where a block keeps its scales (docs/formats.md).
#ifndef DS4_RUNTIME_WEIGHTCHECK_H
#define DS4_RUNTIME_WEIGHTCHECK_H

#include "runtime/BundleFormat.h"
#include "runtime/Result.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ds4 {

/// Checks one tensor, piece by piece in any order; several threads may at
/// once.
class WeightCheck {
public:
  /// `desc` must outlive this object. `fileOffset` is that of the tensor's
  /// data. `modes`: of each expert of an adaptive weight (0 fixed levels, 1
  /// learned levels); empty: all 1.
  WeightCheck(const WeightDesc &desc, uint64_t fileOffset,
              std::span<const uint8_t> modes = {});

  /// Checks whole blocks, the first of which is block `first`. Errors name
  /// tensor, block or element, and file offset. With the last piece of the
  /// tensor: the scale bytes of type 107 look like another reading of it.
  Status check(std::span<const std::byte> bytes, uint64_t first);

private:
  Status checkReading() const;
  /// Checks `count` whole blocks at `data`, which begin with block `first`.
  Status checkBlocks(const uint8_t *data, uint64_t first, uint64_t count);
  Status checkFloats(const uint8_t *data, uint64_t first, uint64_t count);
  Status checkF16Scales(const uint8_t *data, uint64_t first, uint64_t count);
  Status checkScaleBytes(const uint8_t *data, uint64_t first, uint64_t count,
                         bool selectorBit);
  Status checkExponents(const uint8_t *data, uint64_t first, uint64_t count);
  Status checkMix(const uint8_t *data, uint64_t first, uint64_t count);
  Status checkTable(const uint8_t *data, uint64_t first, uint64_t count);
  void countAffine(const uint8_t *data, uint64_t count);

  const WeightDesc &desc;
  const WeightFormatInfo &info;
  uint64_t fileOffset;
  std::span<const uint8_t> modes;
  std::atomic<uint64_t> blocksSeen = 0;
  /// Type 107: blocks whose byte 9 > byte 8.
  std::atomic<uint64_t> offsetAboveScale = 0;
};

} // namespace ds4

#endif // DS4_RUNTIME_WEIGHTCHECK_H
