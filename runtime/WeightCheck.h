// WeightCheck.h - refuses damaged weights while they stream in: scale bytes,
// scales and values that no encoder writes. What the bytes mean is not known
// here beyond where a block keeps its scales (docs/formats.md).
#ifndef DS4_RUNTIME_WEIGHTCHECK_H
#define DS4_RUNTIME_WEIGHTCHECK_H

#include "runtime/BundleFormat.h"
#include "runtime/Result.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ds4 {

/// Checks one tensor, fed in file order in pieces of any size.
class WeightCheck {
public:
  /// `desc` must outlive this object. `fileOffset` is that of the tensor's
  /// data. `modes`: of each expert of an adaptive weight (0 fixed levels, 1
  /// learned levels); empty: all 1.
  WeightCheck(const WeightDesc &desc, uint64_t fileOffset,
              std::span<const uint8_t> modes = {});

  /// Errors name tensor, block or element, and file offset.
  Status feed(std::span<const std::byte> bytes);

  /// After the last byte. Error: the scale bytes of a type 107 tensor look
  /// like another reading of that type.
  Status finish() const;

private:
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
  uint64_t blocksSeen = 0;
  uint64_t offsetAboveScale = 0; ///< type 107: blocks whose byte 9 > byte 8
  std::array<uint8_t, 256> carry{};
  uint32_t carried = 0; ///< bytes of a block that the last piece cut
};

} // namespace ds4

#endif // DS4_RUNTIME_WEIGHTCHECK_H
