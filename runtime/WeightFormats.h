// WeightFormats.h - the storage formats of tensors: ids, names, block sizes.
// What a block's bytes mean is in ops/weights_ref.cpp (oracle) and
// ops/weights/*.h (kernels).
#ifndef DS4_RUNTIME_WEIGHTFORMATS_H
#define DS4_RUNTIME_WEIGHTFORMATS_H

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace ds4 {

/// Storage format of a tensor; the value is its type id in a GGUF file.
enum class WeightFormat : uint32_t {
  f32 = 0,
  f16 = 1,
  q8_0 = 8,
  q6_K = 14,
  i32 = 26,
  bf16 = 30,
  q4_0_rocmfp4_fast = 101,
  q3_0_rocmfpx = 104,
  q3_1_rocmfp3_mix = 105,
  q2_1_rocmfp2_mix = 106,
  q2_0_rocmfp2 = 107,
};

/// Constant facts of a format.
struct WeightFormatInfo {
  WeightFormat format;
  std::string_view name;  ///< GGUF type name, e.g. "q8_0"
  uint32_t blockElements; ///< elements a block; rows are whole blocks
  uint32_t blockBytes;    ///< bytes a block
  uint32_t rowMultiple;   ///< legal row lengths are multiples of this
  uint32_t bookLevels;    ///< levels a learned codebook has; 0: none
  bool quantised;         ///< block-quantised (integer codes and scales)
};

/// All formats, ascending by id.
std::span<const WeightFormatInfo> weightFormats();

/// Facts of `format`.
const WeightFormatInfo &weightFormatInfo(WeightFormat format);

/// The format with this GGUF type id or name, if this build knows it.
std::optional<WeightFormat> weightFormatFromId(uint32_t id);
std::optional<WeightFormat> weightFormatFromName(std::string_view name);

/// Bytes of a row of `elements` elements; `elements` must be a multiple of
/// the format's block.
uint64_t weightRowBytes(WeightFormat format, uint64_t elements);

} // namespace ds4

#endif // DS4_RUNTIME_WEIGHTFORMATS_H
