// ops/numbers.h against double libm and against definitions written another
// way; exhaustive wherever the domain is finite.
#include "ops/prelude.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <vector>

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// |got - want| in units of the last place that a float near `want` has.
double ulpError(float got, double want) {
  const double magnitude = std::fabs(want);
  if (magnitude >= 0x1.ffffffp+127) // rounds to infinity
    return got == std::copysign(kInf, static_cast<float>(want)) ? 0 : 1e30;
  const int exponent = magnitude == 0 ? -149 : std::ilogb(magnitude) - 23;
  return std::fabs(static_cast<double>(got) - want) /
         std::ldexp(1.0, std::max(exponent, -149));
}

/// Calls check(x) for floats of every exponent and sign: a prime stride over
/// all bit patterns, and the 64 neighbours of every power of two.
template <typename F> void forManyFloats(F check) {
  for (uint64_t bits = 0; bits < 0x100000000u; bits += 2003)
    check(float_of(static_cast<u32>(bits)));
  for (u32 exponent = 0; exponent < 512; ++exponent)
    for (int delta = -32; delta < 32; ++delta)
      check(float_of((exponent << 23) + static_cast<u32>(delta)));
}

/// All E4M3 or E2M1 magnitudes in ascending order from their definition:
/// `bits` mantissa bits, smallest normal 2^low.
std::vector<double> magnitudes(int mantissaBits, int low, int count) {
  std::vector<double> values;
  const int steps = 1 << mantissaBits;
  for (int code = 0; code < count; ++code) {
    const int exponent = code / steps, mantissa = code % steps;
    values.push_back(
        exponent == 0
            ? std::ldexp(mantissa, low - mantissaBits)
            : std::ldexp(steps + mantissa, low - mantissaBits + exponent - 1));
  }
  return values;
}

/// Index of the nearest of `values`, ties to the even index.
u32 nearest(const std::vector<double> &values, double x) {
  u32 best = 0;
  for (u32 i = 1; i < values.size(); ++i) {
    const double now = std::fabs(values[i] - x);
    const double before = std::fabs(values[best] - x);
    if (now < before || (now == before && i % 2 == 0))
      best = i;
  }
  return best;
}

TEST(Numbers, ExpIsWithinTwoUlp) {
  double worst = 0;
  forManyFloats([&](float x) {
    if (!std::isnan(x))
      worst = std::max(worst, ulpError(exp_f32(x), std::exp(double(x))));
  });
  // The whole range of normal and subnormal results, densely.
  for (float x = -104.5f; x < 89.5f; x += 0.00037f)
    worst = std::max(worst, ulpError(exp_f32(x), std::exp(double(x))));
  EXPECT_LE(worst, 2.0);
}

TEST(Numbers, ExpBoundaries) {
  EXPECT_EQ(bits_of(exp_f32(0.0f)), bits_of(1.0f));
  EXPECT_EQ(bits_of(exp_f32(-0.0f)), bits_of(1.0f));
  EXPECT_EQ(exp_f32(kInf), kInf);
  EXPECT_EQ(bits_of(exp_f32(-kInf)), 0u);
  EXPECT_TRUE(std::isnan(exp_f32(kNan)));
  // ln of the greatest float and its successor.
  EXPECT_LT(exp_f32(float_of(0x42b17217)), kInf);
  EXPECT_EQ(exp_f32(float_of(0x42b17218)), kInf);
  EXPECT_EQ(exp_f32(89.0f), kInf);
  // -103.97 is the last that rounds to 2^-149 and not to 0.
  EXPECT_EQ(exp_f32(-103.97f), 0x1p-149f);
  EXPECT_EQ(bits_of(exp_f32(-103.98f)), 0u);
  EXPECT_EQ(bits_of(exp_f32(-104.1f)), 0u);
}

TEST(Numbers, ExpNeverDecreases) {
  float before = 0;
  for (float x = -104.5f; x < 89.5f; x += 0.00037f) {
    const float now = exp_f32(x);
    EXPECT_GE(now, before) << x;
    before = now;
  }
}

TEST(Numbers, Exp2) {
  double worst = 0;
  forManyFloats([&](float x) {
    if (!std::isnan(x))
      worst = std::max(worst, ulpError(exp2_f32(x), std::exp2(double(x))));
  });
  for (float x = -150.5f; x < 128.5f; x += 0.0005f)
    worst = std::max(worst, ulpError(exp2_f32(x), std::exp2(double(x))));
  EXPECT_LE(worst, 2.0);
  for (int n = -149; n < 128; ++n)
    EXPECT_EQ(exp2_f32(static_cast<float>(n)), std::ldexp(1.0f, n));
  EXPECT_EQ(exp2_f32(kInf), kInf);
  EXPECT_EQ(bits_of(exp2_f32(-kInf)), 0u);
  EXPECT_TRUE(std::isnan(exp2_f32(kNan)));
}

TEST(Numbers, Log1p) {
  double worst = 0;
  const auto check = [&](float x) {
    if (x > -1.0f && x < kInf)
      worst = std::max(worst, ulpError(log1p_f32(x), std::log1p(double(x))));
  };
  forManyFloats(check);
  for (float x = -0.9999f; x < 8; x += 0.00001f)
    check(x);
  EXPECT_LE(worst, 2.0);
  EXPECT_EQ(bits_of(log1p_f32(0.0f)), 0u);
  EXPECT_EQ(bits_of(log1p_f32(-0.0f)), 0x80000000u);
  EXPECT_EQ(log1p_f32(0x1p-149f), 0x1p-149f);
  EXPECT_EQ(log1p_f32(kInf), kInf);
  EXPECT_EQ(log1p_f32(-1.0f), -kInf);
  EXPECT_TRUE(std::isnan(log1p_f32(-1.5f)));
  EXPECT_TRUE(std::isnan(log1p_f32(kNan)));
}

TEST(Numbers, SigmoidAndSoftplus) {
  for (float x = -88.0f; x < 100.0f; x += 0.01f) {
    EXPECT_LE(ulpError(sigmoid_f32(x), 1 / (1 + std::exp(-double(x)))), 4.0);
    EXPECT_LE(ulpError(softplus_f32(x), std::log1p(std::exp(double(x)))), 4.0)
        << x;
  }
  EXPECT_EQ(sigmoid_f32(0.0f), 0.5f);
  EXPECT_EQ(sigmoid_f32(kInf), 1.0f);
  EXPECT_EQ(sigmoid_f32(-kInf), 0.0f);
  EXPECT_EQ(sigmoid_f32(20.0f), 1.0f);
  EXPECT_TRUE(std::isnan(sigmoid_f32(kNan)));
  EXPECT_EQ(softplus_f32(20.5f), 20.5f);
  EXPECT_EQ(softplus_f32(kInf), kInf);
  EXPECT_EQ(bits_of(softplus_f32(-kInf)), 0u);
  EXPECT_TRUE(std::isnan(softplus_f32(kNan)));
}

TEST(Numbers, F16DecodesAllAndEncodesBack) {
  for (u32 h = 0; h < 0x10000; ++h) {
    const float x = f32_from_f16(h);
    const int exponent = h >> 10 & 31, mantissa = h & 1023;
    if (exponent == 31 && mantissa) {
      EXPECT_TRUE(std::isnan(x));
      EXPECT_EQ(f16_from_f32(x), h | 0x200u);
      continue;
    }
    const double magnitude = exponent == 31 ? double(kInf)
                             : exponent == 0
                                 ? std::ldexp(mantissa, -24)
                                 : std::ldexp(1024 + mantissa, exponent - 25);
    EXPECT_EQ(x, h & 0x8000 ? -magnitude : magnitude);
    EXPECT_EQ(std::signbit(x), h >> 15 != 0);
    EXPECT_EQ(f16_from_f32(x), h);
  }
}

TEST(Numbers, F16RoundsToNearestEven) {
  // Every midpoint between neighbours, and the floats on both sides of it.
  for (u32 h = 0; h < 0x7c00; ++h) {
    const double low = f32_from_f16(h);
    const double high = h == 0x7bff ? 65536.0 : f32_from_f16(h + 1);
    const float middle = static_cast<float>((low + high) / 2);
    const u32 even = h % 2 ? h + 1 : h;
    EXPECT_EQ(f16_from_f32(middle), even);
    EXPECT_EQ(f16_from_f32(-middle), even | 0x8000u);
    EXPECT_EQ(f16_from_f32(float_of(bits_of(middle) - 1)), h);
    EXPECT_EQ(f16_from_f32(float_of(bits_of(middle) + 1)), h + 1);
  }
  EXPECT_EQ(f16_from_f32(kInf), 0x7c00u);
  EXPECT_EQ(f16_from_f32(1e30f), 0x7c00u);
}

TEST(Numbers, Bf16) {
  for (u32 h = 0; h < 0x10000; ++h) {
    const float x = f32_from_bf16(h);
    EXPECT_EQ(bits_of(x), h << 16);
    if (std::isnan(x)) {
      EXPECT_EQ(bf16_from_f32(x), h | 0x40u);
      // A payload in the low half alone must not become infinity.
      EXPECT_TRUE(std::isnan(
          f32_from_bf16(bf16_from_f32(float_of((h & 0xff80u) << 16 | 1u)))));
      continue;
    }
    EXPECT_EQ(bf16_from_f32(x), h);
    if (std::isinf(x))
      continue;
    const u32 middle = h << 16 | 0x8000u;
    EXPECT_EQ(bf16_from_f32(float_of(middle)), h % 2 ? h + 1 : h);
    EXPECT_EQ(bf16_from_f32(float_of(middle - 1)), h);
    EXPECT_EQ(bf16_from_f32(float_of(middle + 1)), h + 1);
  }
}

/// Decoding, encoding, midpoints of a small format whose magnitudes are
/// `values` (code = index), sign in bit `signBit`.
void checkSmallFormat(const std::vector<double> &values, u32 signBit,
                      float (*decode)(u32), u32 (*encode)(float)) {
  for (u32 code = 0; code < values.size(); ++code) {
    const float x = static_cast<float>(values[code]);
    EXPECT_EQ(bits_of(decode(code)), bits_of(x));
    EXPECT_EQ(bits_of(decode(code | signBit)), bits_of(-x));
    EXPECT_EQ(encode(x), code);
    EXPECT_EQ(encode(-x), code | signBit);
    if (code + 1 == values.size())
      continue;
    const float middle =
        static_cast<float>((values[code] + values[code + 1]) / 2);
    for (int delta = -300; delta <= 300; ++delta) {
      const float near = float_of(bits_of(middle) + static_cast<u32>(delta));
      EXPECT_EQ(encode(near), nearest(values, near)) << near;
      EXPECT_EQ(encode(-near), nearest(values, near) | signBit);
    }
  }
  const u32 top = static_cast<u32>(values.size()) - 1;
  for (float x : {float(values[top]) * 1.01f, 1e10f, kInf}) {
    EXPECT_EQ(encode(x), top);
    EXPECT_EQ(encode(-x), top | signBit);
  }
  forManyFloats([&](float x) {
    if (std::isnan(x) || (bits_of(x) >> 23) % 16 != 7)
      return; // one exponent in 16: `nearest` is slow
    const double magnitude = std::min(std::fabs(double(x)), values[top]);
    EXPECT_EQ(encode(x),
              nearest(values, magnitude) | (std::signbit(x) ? signBit : 0));
  });
}

TEST(Numbers, E4m3) {
  checkSmallFormat(magnitudes(3, -6, 127), 0x80, f32_from_e4m3, e4m3_from_f32);
  EXPECT_EQ(f32_from_e4m3(0x7e), 448.0f);
  EXPECT_TRUE(std::isnan(f32_from_e4m3(0x7f)));
  EXPECT_TRUE(std::isnan(f32_from_e4m3(0xff)));
  EXPECT_EQ(e4m3_from_f32(kNan), 0x7fu);
}

TEST(Numbers, E2m1) {
  checkSmallFormat(magnitudes(1, 0, 8), 8, f32_from_e2m1, e2m1_from_f32);
  EXPECT_EQ(f32_from_e2m1(7), 6.0f);
  EXPECT_EQ(e2m1_from_f32(kNan), 0u);
}

TEST(Numbers, Ue4m3MatchesTheTable) {
  std::ifstream file(DS4_SOURCE_DIR "/ops/test/data/scale_ue4m3.f32.bin",
                     std::ios::binary);
  std::array<u32, 256> table;
  file.read(reinterpret_cast<char *>(table.data()), sizeof table);
  ASSERT_TRUE(file);
  for (u32 code = 0; code < 256; ++code)
    EXPECT_EQ(bits_of(f32_from_ue4m3(code)), table[code]) << code;
}

/// Smallest n with 2^n >= max(amax, floor) / top, by integers alone.
int exactExponent(float amax, double floor, double top) {
  const double a = std::max(double(amax), floor);
  int n = -200;
  while (std::ldexp(top, n) < a) // exact: top has few bits
    ++n;
  return n;
}

TEST(Numbers, BlockExponents) {
  const auto check = [](float x) {
    if (!(x >= 0) || std::isinf(x))
      return;
    EXPECT_EQ(int(fp8_exponent(x)) - 127, exactExponent(x, 1e-4f, 448)) << x;
    EXPECT_EQ(int(fp4_exponent(x)) - 127,
              exactExponent(x, std::ldexp(6.0, -126), 6))
        << x;
  };
  for (int exponent = 0; exponent < 255; ++exponent)
    for (u32 mantissa : {0x400000u, 0x600000u, 0u, 0x7fffffu})
      for (int delta = -4; delta <= 4; ++delta)
        check(float_of((static_cast<u32>(exponent) << 23 | mantissa) +
                       static_cast<u32>(delta)));
  EXPECT_EQ(fp8_scale(448.0f), 1.0f);
  EXPECT_EQ(fp8_scale(0.0f), 0x1p-22f);
  EXPECT_EQ(fp4_scale(6.0f), 1.0f);
  EXPECT_EQ(fp4_scale(6.0001f), 2.0f);
  EXPECT_EQ(fp4_scale(0.0f), 0x1p-126f);
}

TEST(Numbers, SimulationRoundsTheExactQuotient) {
  const std::vector<double> fp8 = magnitudes(3, -6, 127);
  const std::vector<double> fp4 = magnitudes(1, 0, 8);
  for (int exponent = 1; exponent < 255; exponent += 3) {
    const float amax = float_of(static_cast<u32>(exponent) << 23 | 0x5a5a5au);
    for (double part : {1.0, 0.97, 0.75, 0.6251, 0.5, 0.1, 0.013, 1e-3, 1e-5}) {
      const float x = static_cast<float>(amax * part);
      const u32 e8 = fp8_exponent(amax), e4 = fp4_exponent(amax);
      const double s8 = std::ldexp(1.0, int(e8) - 127);
      const double s4 = std::ldexp(1.0, int(e4) - 127);
      EXPECT_EQ(fp8_simulate(x, e8), fp8[nearest(fp8, x / s8)] * s8);
      EXPECT_EQ(fp4_simulate(-x, e4), -fp4[nearest(fp4, x / s4)] * s4);
    }
  }
}

TEST(Numbers, SimulationIsIdempotent) {
  u32 seed = 1;
  for (int exponent = 0; exponent < 254; ++exponent)
    for (int trial = 0; trial < 8; ++trial) {
      std::array<float, 32> x;
      float amax = 0;
      for (float &v : x) {
        seed = seed * 1664525 + 1013904223;
        const u32 below = seed >> 9 & 15;
        v = float_of((seed & 0x807fffffu) |
                     (u32(exponent) > below ? exponent - below : 0) << 23);
        amax = max_abs(amax, v);
      }
      const u32 e8 = fp8_exponent(amax), e4 = fp4_exponent(amax);
      float amax8 = 0, amax4 = 0;
      for (float v : x) {
        amax8 = max_abs(amax8, fp8_simulate(v, e8));
        amax4 = max_abs(amax4, fp4_simulate(v, e4));
      }
      for (float v : x) {
        const float once8 = fp8_simulate(v, e8), once4 = fp4_simulate(v, e4);
        EXPECT_EQ(bits_of(fp8_simulate(once8, fp8_exponent(amax8))),
                  bits_of(once8));
        EXPECT_EQ(bits_of(fp4_simulate(once4, fp4_exponent(amax4))),
                  bits_of(once4));
      }
    }
}

TEST(Numbers, BlocksDoNotLoseNans) {
  float amax = 0;
  for (float x : {1.0f, kNan, 2.0f})
    amax = max_abs(amax, x);
  for (float top : {amax, kInf}) {
    EXPECT_TRUE(std::isnan(fp8_simulate(1.0f, fp8_exponent(top))));
    EXPECT_TRUE(std::isnan(fp4_simulate(1.0f, fp4_exponent(top))));
  }
  EXPECT_TRUE(std::isnan(int8_scale(amax)));
  EXPECT_EQ(int8_code(1.0f, int8_scale(amax)), 0);
}

TEST(Numbers, Int8Codes) {
  // scale 1: half-way cases go to the even integer.
  for (int n = -127; n < 127; ++n) {
    const float middle = static_cast<float>(n) + 0.5f;
    EXPECT_EQ(int8_code(middle, 1.0f), n % 2 == 0 ? n : n + 1);
    EXPECT_EQ(int8_code(std::nextafter(middle, -kInf), 1.0f), n);
    EXPECT_EQ(int8_code(std::nextafter(middle, kInf), 1.0f), n + 1);
  }
  EXPECT_EQ(int8_code(3.0f, 0.0f), 0);
  EXPECT_EQ(int8_code(1.0f, 0x1p-149f), 127);
  EXPECT_EQ(int8_code(-1e30f, 1.0f), -127);
}

} // namespace
