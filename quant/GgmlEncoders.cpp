// GgmlEncoders.cpp - ggml's own formats: q8_0, q6_K and the float formats, as
// ggml's reference quantisers choose codes and scales.
#include "quant/Encoders.h"

#include "ops/CodeLayout.h"
#include "ops/prelude.h"
#include "ops/weights/formats.h"

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

static void encodeQ8_0Row(Floats row, Floats, uint8_t *out) {
  using namespace format_q8_0;
  assert(row.size() % 32 == 0);
  const ref::CodeLayout &layout = ref::codeLayout(WeightFormat::q8_0);
  for (size_t at = 0; at < row.size(); at += 32, out += kBlockBytes) {
    std::memset(out, 0, kBlockBytes);
    float greatest = 0;
    for (size_t i = 0; i < 32; ++i)
      greatest = std::max(greatest, std::fabs(row[at + i]));
    const float d = greatest / 127;
    // Below 2^-128 the quotient overflows, and d is 0 in f16.
    const float inverse = std::isfinite(1.0f / d) ? 1.0f / d : 0;
    putU16(out + kScaleOffset, f16_from_f32(d));
    for (unsigned i = 0; i < 32; ++i)
      layout.put(out, i,
                 static_cast<uint8_t>(
                     static_cast<int8_t>(std::round(row[at + i] * inverse))));
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
  using namespace format_q6_K;
  const ref::CodeLayout &layout = ref::codeLayout(WeightFormat::q6_K);
  std::memset(out, 0, kBlockBytes);
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
  putU16(out + kScaleOffset, f16_from_f32(1.0f / inverse));
  const float d = f32_from_f16(f16_from_f32(1.0f / inverse));
  for (unsigned s = 0; s < 16; ++s) {
    const auto scale = static_cast<int8_t>(
        std::min(127.0f, std::nearbyint(inverse * scales[s])));
    // The int8 scales lie between the codes and d.
    out[kScaleOffset - 16 + s] = static_cast<uint8_t>(scale);
    const float step = d * static_cast<float>(scale);
    for (unsigned i = 16 * s; i < 16 * s + 16; ++i) {
      // A scale of 0 leaves the code of the fit in ggml; its value is 0.
      const float level =
          step != 0 ? std::clamp(std::nearbyint(x[i] / step), -32.0f, 31.0f)
                    : 0.0f;
      layout.put(out, i,
                 static_cast<unsigned>(static_cast<int>(level) + layout.zero));
    }
  }
}

static void encodeQ6KRow(Floats row, Floats importance, uint8_t *out) {
  using namespace format_q6_K;
  assert(row.size() % kBlockElements == 0);
  for (size_t at = 0; at < row.size(); at += kBlockElements, out += kBlockBytes)
    encodeQ6KBlock(row.data() + at,
                   importance.empty() ? nullptr : importance.data() + at, out);
}

static void encodeF32Row(Floats row, Floats, uint8_t *out) {
  std::memcpy(out, row.data(), row.size_bytes());
}

static void encodeF16Row(Floats row, Floats, uint8_t *out) {
  for (size_t i = 0; i < row.size(); ++i)
    putU16(out + 2 * i, f16_from_f32(row[i]));
}

static void encodeBf16Row(Floats row, Floats, uint8_t *out) {
  for (size_t i = 0; i < row.size(); ++i)
    putU16(out + 2 * i, bf16_from_f32(row[i]));
}

namespace {
struct RowEncoder {
  WeightFormat format;
  void (*encode)(Floats row, Floats importance, uint8_t *out);
};
} // namespace

/// Those that are not of ROCmFPX.
static constexpr RowEncoder kRowEncoders[] = {
    {WeightFormat::f32, encodeF32Row},   {WeightFormat::f16, encodeF16Row},
    {WeightFormat::bf16, encodeBf16Row}, {WeightFormat::q8_0, encodeQ8_0Row},
    {WeightFormat::q6_K, encodeQ6KRow},
};

static const RowEncoder *findEncoder(WeightFormat format) {
  const auto *it = std::ranges::find(kRowEncoders, format, &RowEncoder::format);
  return it == std::end(kRowEncoders) ? nullptr : it;
}

bool canEncode(WeightFormat format) {
  return isRocmfpx(format) || findEncoder(format);
}

void encodeRow(WeightFormat format, Floats row, Floats importance,
               uint8_t *out) {
  assert(canEncode(format));
  if (const RowEncoder *encoder = findEncoder(format))
    return encoder->encode(row, importance, out);
  encodeRocmfpxRow(format, row, importance, out);
}

} // namespace ds4::quant
