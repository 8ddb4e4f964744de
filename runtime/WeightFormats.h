// WeightFormats.h - the storage formats of tensors: ids, names, block sizes.
// One record of ir/QuantFormats.td each, of which WeightFormats.inc is made.
// What a block's bytes mean is in ops/weights_ref.cpp (oracle) and
// ops/weights/*.h (kernels).
#ifndef DS4_RUNTIME_WEIGHTFORMATS_H
#define DS4_RUNTIME_WEIGHTFORMATS_H

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace ds4 {

/// Storage format of a tensor.
enum class WeightFormat : uint32_t {
#define DS4_FORMAT_ENUMERATORS
#include "runtime/WeightFormats.inc"
};

/// How the scales of a block are encoded.
enum class ScaleKind : uint8_t {
  none,      ///< the format has no blocks
  f16,       ///< IEEE binary16, little endian
  ue4m3,     ///< a byte, valid to 0x7e (docs/formats.md)
  ue4m3Book, ///< the same in bits 0-6, a book in bit 7
  ue4m3Sign, ///< the same in bits 0-6, a sign in bit 7
  e8m0,      ///< a byte e, 2^(e - 127)
};

/// Constant facts of a format.
struct WeightFormatInfo {
  WeightFormat format;
  uint32_t typeId;        ///< in a GGUF file
  std::string_view name;  ///< GGUF type name, e.g. "q8_0"
  uint32_t blockElements; ///< elements a block; rows are whole blocks
  uint32_t blockBytes;    ///< bytes a block
  uint32_t rowMultiple;   ///< legal row lengths are multiples of this
  uint32_t bookLevels;    ///< levels a learned codebook has; 0: none
  bool quantised;         ///< block-quantised (integer codes and scales)
  ScaleKind scaleKind;
  uint32_t scaleOffset; ///< of the first scale in a block
  uint32_t scaleCount;  ///< scales of this kind, one behind the other
  /// Byte of a block that cuts codes from scales (WeightLayout::lanes).
  uint32_t split;
};

/// All formats, ascending by id.
std::span<const WeightFormatInfo> weightFormats();

/// Facts of `format`.
const WeightFormatInfo &weightFormatInfo(WeightFormat format);

/// The format with this GGUF type id or name, if this build knows it; of an id
/// with several readings the one that files have unless told otherwise.
std::optional<WeightFormat> weightFormatFromId(uint32_t id);
std::optional<WeightFormat> weightFormatFromName(std::string_view name);

/// What type 107 means; no file says it (docs/formats.md).
enum class Fp2Reading { dual, affine, fp2s, s40 };
std::optional<Fp2Reading> fp2ReadingFromName(std::string_view name);
WeightFormat fp2Format(Fp2Reading reading);
/// Name of the reading that `format` is, as fp2ReadingFromName takes it; empty
/// if it is none.
std::string_view fp2ReadingName(WeightFormat format);

/// Whether tensors of type `typeId` may be read as `format`.
bool weightFormatMayBe(WeightFormat format, uint32_t typeId);

/// Bytes of a row of `elements` elements; `elements` must be a multiple of
/// the format's block.
uint64_t weightRowBytes(WeightFormat format, uint64_t elements);

/// Bytes of the two books of an expert as kernels read them (ds4.books): of
/// each book the levels in f32, or the levels in int8 and then an f32 scale.
uint64_t bookBytes(WeightFormat format, bool int8);

} // namespace ds4

#endif // DS4_RUNTIME_WEIGHTFORMATS_H
