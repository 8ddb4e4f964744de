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

/// What an element's squared error counts in a row of ROCmFPX, from the
/// importance of its column: q sqrt(mean(x^2) + x^2). Elements that are not
/// finite, or whose importance is not finite and above 0, count 0.
/// `weights` and `importance` have the row's size.
void rocmfpxWeights(Floats row, Floats importance, std::span<float> weights);

/// Whether `format` is ROCmFPX type 100..104 or 107 (dual).
bool isRocmfpx(WeightFormat format);

/// Encodes a row, a multiple of 32, in a format that isRocmfpx:
/// for each group the scale byte of least weighted squared error, ties to the
/// smaller. Values that are not finite become zero. `importance` is empty or
/// has a value a column.
void encodeRocmfpxRow(WeightFormat format, Floats row, Floats importance,
                      uint8_t *out);

/// Whether encodeRow writes this format. Many can only be read.
bool canEncode(WeightFormat format);

/// Encodes a row in a format that canEncode, whole blocks of it; f16 and bf16
/// round to nearest even. For q8_0 and q6_K it must be finite. `importance` is
/// empty or has a value a column.
void encodeRow(WeightFormat format, Floats row, Floats importance,
               uint8_t *out);

} // namespace ds4::quant

#endif // DS4_QUANT_ENCODERS_H
