// GgmlEncoders.cpp - ggml's own formats: q8_0, q6_K and the float formats, as
// ggml's reference quantisers choose codes and scales.
#include "quant/Encoders.h"

#include "ops/prelude.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>

namespace ds4::quant {

static void putU16(uint8_t *out, uint32_t bits) {
  out[0] = static_cast<uint8_t>(bits);
  out[1] = static_cast<uint8_t>(bits >> 8);
}

void encodeQ8_0Row(Floats row, uint8_t *out) {
  assert(row.size() % 32 == 0);
  for (size_t at = 0; at < row.size(); at += 32, out += 34) {
    float greatest = 0;
    for (size_t i = 0; i < 32; ++i)
      greatest = std::max(greatest, std::fabs(row[at + i]));
    const float d = greatest / 127;
    // Below 2^-128 the quotient overflows, and d is 0 in f16.
    const float inverse = std::isfinite(1.0f / d) ? 1.0f / d : 0;
    putU16(out, f16_from_f32(d));
    for (size_t i = 0; i < 32; ++i)
      out[2 + i] = static_cast<uint8_t>(
          static_cast<int8_t>(std::round(row[at + i] * inverse)));
  }
}

/// Codes -32..31 and scales of the 16 values at `x`: of 19 candidates around
/// max / -32, the one whose least-squares fit explains most. Weights are the
/// importance, or x^2 where it is null. Returns the scale.
static float fitSigned6(const float *x, const float *importance) {
  float greatest = 0, extreme = 0;
  for (unsigned i = 0; i < 16; ++i)
    if (std::fabs(x[i]) > greatest) {
      greatest = std::fabs(x[i]);
      extreme = x[i];
    }
  if (greatest < 1e-15f)
    return 0;
  float bestScale = 0, bestGain = 0;
  for (int step = 0; step <= 18; ++step) {
    // 0 first, then -9..-1 and 1..9: the first of equals stays.
    const int offset = step == 0 ? 0 : step <= 9 ? step - 10 : step - 9;
    const float inverse =
        -(32.0f + 0.1f * static_cast<float>(offset)) / extreme;
    float product = 0, square = 0;
    for (unsigned i = 0; i < 16; ++i) {
      const float level =
          std::clamp(std::nearbyint(inverse * x[i]), -32.0f, 31.0f);
      const float w = importance ? importance[i] : x[i] * x[i];
      product += w * x[i] * level;
      square += w * level * level;
    }
    if (step == 0) {
      bestScale = square != 0 ? product / square : 0;
      bestGain = bestScale * product;
    } else if (square > 0 && product * product > bestGain * square) {
      bestScale = product / square;
      bestGain = bestScale * product;
    }
  }
  return bestScale;
}

static void encodeQ6KBlock(const float *x, const float *importance,
                           uint8_t *out) {
  std::memset(out, 0, 210);
  std::array<float, 16> scales;
  float greatest = 0, extreme = 0;
  for (unsigned s = 0; s < 16; ++s) {
    scales[s] =
        fitSigned6(x + 16 * s, importance ? importance + 16 * s : nullptr);
    if (std::fabs(scales[s]) > greatest) {
      greatest = std::fabs(scales[s]);
      extreme = scales[s];
    }
  }
  if (greatest < 1e-15f)
    return;
  const float inverse = -128.0f / extreme;
  putU16(out + 208, f16_from_f32(1.0f / inverse));
  const float d = f32_from_f16(f16_from_f32(1.0f / inverse));
  for (unsigned s = 0; s < 16; ++s) {
    const auto scale = static_cast<int8_t>(
        std::min(127.0f, std::nearbyint(inverse * scales[s])));
    out[192 + s] = static_cast<uint8_t>(scale);
    const float step = d * static_cast<float>(scale);
    for (unsigned i = 16 * s; i < 16 * s + 16; ++i) {
      // A scale of 0 leaves the code of the fit in ggml; its value is 0.
      const float level =
          step != 0 ? std::clamp(std::nearbyint(x[i] / step), -32.0f, 31.0f)
                    : 0.0f;
      const auto code = static_cast<unsigned>(static_cast<int>(level) + 32);
      const unsigned group = i / 128, quarter = i % 128 / 32, at = i % 32;
      out[64 * group + 32 * (quarter & 1) + at] |=
          static_cast<uint8_t>((code & 15) << (quarter < 2 ? 0 : 4));
      out[128 + 32 * group + at] |=
          static_cast<uint8_t>(code >> 4 << (2 * quarter));
    }
  }
}

void encodeQ6KRow(Floats row, Floats importance, uint8_t *out) {
  assert(row.size() % 256 == 0);
  for (size_t at = 0; at < row.size(); at += 256, out += 210)
    encodeQ6KBlock(row.data() + at,
                   importance.empty() ? nullptr : importance.data() + at, out);
}

bool canEncode(WeightFormat format) {
  switch (format) {
  case WeightFormat::f32:
  case WeightFormat::f16:
  case WeightFormat::bf16:
  case WeightFormat::q8_0:
  case WeightFormat::q6_K:
  case WeightFormat::q4_0_rocmfp4:
  case WeightFormat::q4_0_rocmfp4_fast:
  case WeightFormat::q6_0_rocmfpx:
  case WeightFormat::q8_0_rocmfpx:
  case WeightFormat::q3_0_rocmfpx:
  case WeightFormat::q2_0_rocmfp2:
    return true;
  default:
    return false;
  }
}

void encodeRow(WeightFormat format, Floats row, Floats importance,
               uint8_t *out) {
  switch (format) {
  case WeightFormat::f32:
    std::memcpy(out, row.data(), row.size_bytes());
    return;
  case WeightFormat::f16:
    for (const float x : row) {
      putU16(out, f16_from_f32(x));
      out += 2;
    }
    return;
  case WeightFormat::bf16:
    for (const float x : row) {
      putU16(out, bf16_from_f32(x));
      out += 2;
    }
    return;
  case WeightFormat::q8_0:
    return encodeQ8_0Row(row, out);
  case WeightFormat::q6_K:
    return encodeQ6KRow(row, importance, out);
  default:
    return encodeRocmfpxRow(static_cast<uint32_t>(format), row, importance,
                            out);
  }
}

} // namespace ds4::quant
