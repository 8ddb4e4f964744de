// Encoders.h - from f32 rows to the blocks of a storage format, one row at a
// time: the published reference encoders, bit for bit. Knows no file and no
// tensor name. Formats with learned books are in MixEncoder.h.
#ifndef DS4_QUANT_ENCODERS_H
#define DS4_QUANT_ENCODERS_H

#include "runtime/WeightFormats.h"

#include <cstdint>
#include <span>

namespace ds4::quant {

using Floats = std::span<const float>;

/// Value of a scale byte of ROCmFPX; 0 for invalid bytes.
float ue4m3(uint8_t byte);

/// The byte 1..126 whose value is nearest to `value`, ties to the smaller
/// byte; 0 unless `value` is finite and greater than 0.
uint8_t nearestUe4m3(float value);

/// Bytes of a block of 32 in ROCmFPX type 100..104 or 107; 0 for others.
/// Includes types that the rest of the project refuses.
uint32_t rocmfpxBlockBytes(uint32_t typeId);

/// What an element's squared error counts in a row of ROCmFPX, from the
/// importance of its column: q sqrt(mean(x^2) + x^2). Elements that are not
/// finite, or whose importance is not finite and above 0, count 0.
/// `weights` and `importance` have the row's size.
void rocmfpxWeights(Floats row, Floats importance, std::span<float> weights);

/// Encodes a row, a multiple of 32, in ROCmFPX type 100..104 or 107 (dual):
/// for each group the scale byte of least weighted squared error, ties to the
/// smaller. Values that are not finite become zero. `importance` is empty or
/// has a value a column.
void encodeRocmfpxRow(uint32_t typeId, Floats row, Floats importance,
                      uint8_t *out);

/// ggml's q8_0. `row` is a multiple of 32 and finite.
void encodeQ8_0Row(Floats row, uint8_t *out);

/// ggml's q6_K. `row` is a multiple of 256 and finite; `importance` is empty
/// or has a value a column.
void encodeQ6KRow(Floats row, Floats importance, uint8_t *out);

/// Whether encodeRow writes this format. Many can only be read.
bool canEncode(WeightFormat format);

/// Encodes a row in a format that canEncode; f16 and bf16 round to nearest
/// even.
void encodeRow(WeightFormat format, Floats row, Floats importance,
               uint8_t *out);

} // namespace ds4::quant

#endif // DS4_QUANT_ENCODERS_H
