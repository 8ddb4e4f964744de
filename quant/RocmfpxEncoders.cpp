// RocmfpxEncoders.cpp - types 100..104 and 107 of ROCmFPX: choice of scale
// bytes and codes as the published reference quantiser. All arithmetic is f32
// in ascending order of elements, no fused multiply-add; results equal those
// of trying all 126 scale bytes.
#include "quant/Encoders.h"

#include "ops/CodeLayout.h"
#include "ops/prelude.h"
#include "ops/weights/formats.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace ds4::quant {

static constexpr float kInfinity = std::numeric_limits<float>::infinity();
static constexpr unsigned kLastScale = 126; // 0x7f means NaN in E4M3

static constexpr std::array<float, 256> kUe4m3 = [] {
  std::array<float, 256> table{};
  for (unsigned byte = 1; byte <= kLastScale; ++byte) {
    const unsigned exponent = byte >> 3, mantissa = byte & 7;
    float value = static_cast<float>(exponent ? 8 + mantissa : mantissa);
    const int power = exponent ? static_cast<int>(exponent) - 11 : -10;
    for (int i = 0; i < power; ++i)
      value *= 2;
    for (int i = 0; i > power; --i)
      value /= 2;
    table[byte] = value;
  }
  return table;
}();

float ue4m3(uint8_t byte) { return kUe4m3[byte]; }

uint8_t nearestUe4m3(float value) {
  if (!(value > 0) || !std::isfinite(value))
    return 0;
  // Far above the largest scale rounded distances tie, and the first of all
  // bytes wins; below it only neighbours compete.
  unsigned first = 1, last = kLastScale;
  if (value <= kUe4m3[kLastScale]) {
    const auto *above = std::lower_bound(&kUe4m3[1], &kUe4m3[126], value);
    last = static_cast<unsigned>(above - kUe4m3.data());
    first = std::max(last, 2u) - 1;
  }
  unsigned best = first;
  for (unsigned byte = first + 1; byte <= last; ++byte)
    if (std::fabs(kUe4m3[byte] - value) < std::fabs(kUe4m3[best] - value))
      best = byte;
  return static_cast<uint8_t>(best);
}

namespace {

/// A format's levels: level() and code() of a value in units of the scale.
struct Fp4 {
  static constexpr float kTop = 10;
  static constexpr unsigned kGroup = 32 / format_q4_0_rocmfp4::kScales;
  static constexpr uint8_t kZero = 0, kOverflow = 0;
  static int index(float v) {
    const float a = std::fabs(v);
    return (a > 0.5f) + (a > 1.5f) + (a > 2.5f) + (a > 3.5f) + (a > 5.0f) +
           (a > 7.0f) + (a > 9.0f);
  }
  static float level(float v) {
    const int i = index(v);
    return std::copysign(static_cast<float>(i + std::max(i - 4, 0)), v);
  }
  static uint8_t code(float v) {
    const int i = index(v);
    return static_cast<uint8_t>(i && v < 0 ? i | 8 : i);
  }
};

struct Fp4Fast : Fp4 {
  static constexpr unsigned kGroup = 32 / format_q4_0_rocmfp4_fast::kScales;
};

struct Fp3 {
  static constexpr float kTop = 4;
  static constexpr unsigned kGroup = 32 / format_q3_0_rocmfpx::kScales;
  static constexpr uint8_t kZero = 0, kOverflow = 1;
  static int index(float v) {
    const float a = std::fabs(v);
    return (a > 0.5f) + (a > 1.5f) + (a > 3.0f);
  }
  static float level(float v) {
    const int i = index(v);
    return std::copysign(static_cast<float>(i + (i == 3)), v);
  }
  static uint8_t code(float v) {
    const int i = index(v);
    return static_cast<uint8_t>(i && v < 0 ? i | 4 : i);
  }
};

struct Fp6 {
  static constexpr float kTop = 31;
  static constexpr unsigned kGroup = 32 / format_q6_0_rocmfpx::kScales;
  static constexpr uint8_t kZero = 0, kOverflow = 1;
  static float level(float v) {
    return std::copysign(std::round(std::min(std::fabs(v), 31.0f)), v);
  }
  static uint8_t code(float v) {
    const int magnitude =
        static_cast<int>(std::round(std::min(std::fabs(v), 31.0f)));
    return static_cast<uint8_t>(magnitude && v < 0 ? magnitude | 32
                                                   : magnitude);
  }
};

struct Fp8 {
  static constexpr float kTop = 127;
  static constexpr unsigned kGroup = 32 / format_q8_0_rocmfpx::kScales;
  static constexpr uint8_t kZero = 0, kOverflow = 1;
  static float level(float v) {
    return std::round(std::clamp(v, -127.0f, 127.0f));
  }
  static uint8_t code(float v) {
    return static_cast<uint8_t>(static_cast<int8_t>(level(v)));
  }
};

struct Fp2 {
  static constexpr float kTop = 2;
  static constexpr unsigned kGroup = 32 / format_q2_0_rocmfp2::kScales;
  static constexpr uint8_t kZero = 1, kOverflow = 1;
  /// The nearest level, ties to the lower: decided by rounded distances.
  static float level(float v) {
    float best = -1, distance = std::fabs(v + 1);
    for (const float candidate : {0.0f, 1.0f, 2.0f}) {
      const float other = std::fabs(v - candidate);
      best = other < distance ? candidate : best;
      distance = other < distance ? other : distance;
    }
    return best;
  }
  static uint8_t code(float v) {
    return static_cast<uint8_t>(static_cast<int>(level(v)) + 1);
  }
};

/// Values of a group that shares a scale; those not finite are 0 and count 0.
template <unsigned kSize> struct Group {
  std::array<float, kSize> x, w;
  bool weighted;
  float greatest = 0; ///< max |x|
  float greatestWeight = 1;

  Group(const float *values, const float *weights)
      : weighted(weights != nullptr) {
    for (unsigned i = 0; i < kSize; ++i) {
      const bool finite = std::isfinite(values[i]);
      x[i] = finite ? values[i] : 0;
      w[i] = weighted && finite ? weights[i] : 0;
      if (std::fabs(x[i]) > greatest) {
        greatest = std::fabs(x[i]);
        greatestWeight = weighted ? w[i] : 1;
      }
    }
  }
};

} // namespace

/// Weighted squared error with scale byte `byte`; gives up, with a value above
/// `limit`, once the partial sum exceeds `limit`.
template <typename Levels, unsigned kSize>
static float groupError(const Group<kSize> &group, unsigned byte, float limit) {
  const float scale = kUe4m3[byte], inverse = 1.0f / scale;
  float error = 0;
  for (unsigned begin = 0; begin < kSize; begin += 8) {
    float terms[8];
    for (unsigned i = 0; i < 8; ++i) {
      const float x = group.x[begin + i];
      const float d = x - Levels::level(x * inverse) * scale;
      terms[i] = group.weighted ? group.w[begin + i] * d * d : d * d;
    }
    for (const float term : terms)
      error += term;
    if (error > limit)
      return error;
  }
  return error;
}

/// The scale byte of least error, ties to the smaller.
template <typename Levels, unsigned kSize>
static uint8_t chooseScale(const Group<kSize> &group) {
  if (group.greatest == 0)
    return 0;
  float best = kInfinity;
  unsigned bestByte = Levels::kOverflow;
  const auto consider = [&](unsigned byte) {
    const float error = groupError<Levels>(group, byte, best);
    if (error < best ||
        (error == best && error != kInfinity && byte < bestByte)) {
      best = error;
      bestByte = byte;
    }
  };
  const unsigned start =
      std::max<unsigned>(nearestUe4m3(group.greatest / Levels::kTop), 1);
  for (unsigned byte = start; byte >= 1; --byte) {
    // What the greatest value alone costs by clipping grows from here on.
    const float clipped = group.greatest - Levels::kTop * kUe4m3[byte];
    if (clipped > 0 && group.greatestWeight * clipped * clipped > best)
      break;
    consider(byte);
  }
  for (unsigned byte = start + 1; byte <= kLastScale; ++byte) {
    consider(byte);
    // Every level is 0 from here on, and the error constant.
    if (group.greatest * (1.0f / kUe4m3[byte]) < 0.5f)
      break;
  }
  return static_cast<uint8_t>(bestByte);
}

/// Encodes the groups of one block of 32.
template <typename Levels>
static void encodeBlock(const ref::CodeLayout &layout, const float *x,
                        const float *weights, uint8_t *out) {
  constexpr unsigned kGroup = Levels::kGroup;
  const WeightFormatInfo &info = weightFormatInfo(layout.format);
  std::memset(out, 0, info.blockBytes);
  for (unsigned g = 0; g < 32 / kGroup; ++g) {
    const Group<kGroup> group(x + g * kGroup,
                              weights ? weights + g * kGroup : nullptr);
    uint8_t byte;
    // Plain FP8 is fine enough to go without a search.
    if (std::is_same_v<Levels, Fp8> && !weights)
      byte = nearestUe4m3(group.greatest / Levels::kTop);
    else
      byte = chooseScale<Levels>(group);
    out[info.scaleOffset + g] = byte;
    const float inverse = byte ? 1.0f / kUe4m3[byte] : 0;
    for (unsigned i = 0; i < kGroup; ++i)
      layout.put(out, g * kGroup + i,
                 byte ? Levels::code(group.x[i] * inverse) : Levels::kZero);
  }
}

namespace {
struct BlockEncoder {
  WeightFormat format;
  void (*encode)(const ref::CodeLayout &layout, const float *x,
                 const float *weights, uint8_t *out);
};
} // namespace

static constexpr BlockEncoder kBlockEncoders[] = {
    {WeightFormat::q4_0_rocmfp4, encodeBlock<Fp4>},
    {WeightFormat::q4_0_rocmfp4_fast, encodeBlock<Fp4Fast>},
    {WeightFormat::q6_0_rocmfpx, encodeBlock<Fp6>},
    {WeightFormat::q8_0_rocmfpx, encodeBlock<Fp8>},
    {WeightFormat::q3_0_rocmfpx, encodeBlock<Fp3>},
    {WeightFormat::q2_0_rocmfp2, encodeBlock<Fp2>},
};

static const BlockEncoder *findEncoder(WeightFormat format) {
  for (const BlockEncoder &encoder : kBlockEncoders)
    if (encoder.format == format)
      return &encoder;
  return nullptr;
}

bool isRocmfpx(WeightFormat format) { return findEncoder(format) != nullptr; }

void rocmfpxWeights(Floats row, Floats importance, std::span<float> weights) {
  assert(row.size() == importance.size() && row.size() == weights.size());
  const auto columns = static_cast<float>(row.size());
  float sum = 0;
  for (const float x : row)
    if (std::isfinite(x))
      sum += x * x;
  float variance = sum / columns;
  if (!std::isfinite(sum)) {
    double wide = 0;
    for (const float x : row)
      if (std::isfinite(x))
        wide += static_cast<double>(x) * x;
    variance = static_cast<float>(
        std::min<double>(wide / static_cast<double>(row.size()), FLT_MAX));
  }
  for (size_t i = 0; i < row.size(); ++i) {
    const float x = row[i], q = importance[i];
    weights[i] = 0;
    if (std::isfinite(x) && std::isfinite(q) && q > 0)
      weights[i] = std::min(q * std::sqrt(variance + x * x), FLT_MAX);
  }
}

void encodeRocmfpxRow(WeightFormat format, Floats row, Floats importance,
                      uint8_t *out) {
  const BlockEncoder *encoder = findEncoder(format);
  assert(encoder && row.size() % 32 == 0);
  const ref::CodeLayout &layout = ref::codeLayout(format);
  const uint32_t blockBytes = weightFormatInfo(format).blockBytes;
  std::vector<float> weights(importance.size());
  if (!importance.empty())
    rocmfpxWeights(row, importance, weights);
  for (size_t at = 0; at < row.size(); at += 32, out += blockBytes)
    encoder->encode(layout, row.data() + at,
                    weights.empty() ? nullptr : weights.data() + at, out);
}

} // namespace ds4::quant
