// numbers.h - number code that must give the same bits on every target:
// exp and friends as fixed sequences of +, * and fma, conversions between f32
// and the small float formats, and the FP8/FP4 block round trips. Included by
// ops/prelude.h, which defines the types, DS4_DEVICE, bits_of, float_of,
// fma_f32 and div_f32. Pure functions, no headers; device spelling
// (snake_case), since kernels and oracle share this text.
#ifndef DS4_OPS_NUMBERS_H
#define DS4_OPS_NUMBERS_H

//===----------------------------------------------------------------------===//
// exp, exp2, log1p, sigmoid, softplus
//===----------------------------------------------------------------------===//

// 1.5 * 2^23: adding and subtracting it rounds a float of magnitude below
// 2^22 to an integer, ties to even; the sum's low mantissa bits are the
// integer in two's complement.
constexpr float kRoundMagic = 12582912.0f;
// ln 2 as a sum of two floats.
constexpr float kLn2Hi = 0x1.62e430p-1f, kLn2Lo = -0x1.05c610p-29f;

/// 2^n for -126 <= n <= 127.
DS4_DEVICE float power_of_two(i32 n) { return float_of((u32)(n + 127) << 23); }

/// e^r * 2^n for |r| <= 0.3466, -150 <= n <= 128; rounds a subnormal result
/// once more. e^r = 1 + r + r^2 q(r), q through the six Chebyshev nodes of the
/// interval (truncation below 2^-31 of the result).
DS4_DEVICE float exp_reduced(float r, i32 n) {
  float q = 0x1.a124e6p-13f;
  q = fma_f32(q, r, 0x1.6d4318p-10f);
  q = fma_f32(q, r, 0x1.1110e0p-7f);
  q = fma_f32(q, r, 0x1.5554eap-5f);
  q = fma_f32(q, r, 0x1.555556p-3f);
  q = fma_f32(q, r, 0.5f);
  const float p = fma_f32(r * r, q, r) + 1.0f;
  // Two steps, so that neither factor overflows or underflows: the first
  // product is exact.
  const i32 half = n >> 1;
  return p * power_of_two(half) * power_of_two(n - half);
}

/// e^x, at most 2 ulp off; exactly 1 at 0; 0 below -104, +inf from 88.723 up.
DS4_DEVICE float exp_f32(float x) {
  if (x != x)
    return float_of(0x7fc00000u);
  if (x > 89.0f)
    return float_of(0x7f800000u);
  if (x < -104.0f)
    return 0.0f;
  const float shifted = fma_f32(x, 0x1.715476p+0f, kRoundMagic);
  const float n = shifted - kRoundMagic;
  // Exact: the difference is a multiple of 2^-25 below one half.
  float r = fma_f32(n, -kLn2Hi, x);
  r = fma_f32(n, -kLn2Lo, r);
  return exp_reduced(r, (i32)(bits_of(shifted) - bits_of(kRoundMagic)));
}

/// exp_f32, for lanes that would not take the same branches.
DS4_DEVICE float exp_select(float x) {
  const float inside = x > 89.0f ? 89.0f : x < -104.0f ? -104.0f : x;
  const float shifted = fma_f32(inside, 0x1.715476p+0f, kRoundMagic);
  const float n = shifted - kRoundMagic;
  float r = fma_f32(n, -kLn2Hi, inside);
  r = fma_f32(n, -kLn2Lo, r);
  const float result =
      exp_reduced(r, (i32)(bits_of(shifted) - bits_of(kRoundMagic)));
  const float outside = x > 89.0f     ? float_of(0x7f800000u)
                        : x < -104.0f ? 0.0f
                                      : float_of(0x7fc00000u);
  return x >= -104.0f && x <= 89.0f ? result : outside;
}

/// 2^x, at most 2 ulp off; exact for integers.
DS4_DEVICE float exp2_f32(float x) {
  if (x != x)
    return float_of(0x7fc00000u);
  if (x >= 128.0f)
    return float_of(0x7f800000u);
  if (x < -150.0f)
    return 0.0f;
  const float shifted = x + kRoundMagic;
  const float r = x - (shifted - kRoundMagic);
  return exp_reduced(fma_f32(r, kLn2Hi, r * kLn2Lo),
                     (i32)(bits_of(shifted) - bits_of(kRoundMagic)));
}

/// log(1 + x), at most 2 ulp off; +-0 gives itself, -1 gives -inf, less NaN.
DS4_DEVICE float log1p_f32(float x) {
  if (x != x || x < -1.0f)
    return float_of(0x7fc00000u);
  if (x == -1.0f)
    return float_of(0xff800000u);
  if (x == float_of(0x7f800000u) || x == 0.0f)
    return x;
  // 1 + x = 2^k (1 + f), 1 + f in about [sqrt(1/2), sqrt(2)).
  const u32 bits = bits_of(1.0f + x);
  const i32 k = (i32)(bits - 0x3f3504f3u) >> 23;
  float f;
  if (k <= 24) {
    // f = x 2^-k + (2^-k - 1), one rounding; exactly x for k = 0.
    const float s = power_of_two(-k);
    f = fma_f32(x, s, s - 1.0f);
  } else {
    // 1 + x is x to the last bit.
    f = float_of(bits - ((u32)k << 23)) - 1.0f;
  }
  // log(1 + f) = f - f^2/2 + s (f^2/2 + R), s = f / (2 + f), R the series
  // 2/3 s^2 + 2/5 s^4 + ... of 2 atanh(s); the next term is below 2^-28.
  const float s = div_f32(f, 2.0f + f);
  const float z = s * s;
  float series = 0x1.c71c72p-3f;
  series = fma_f32(series, z, 0x1.24924ap-2f);
  series = fma_f32(series, z, 0x1.99999ap-2f);
  series = fma_f32(series, z, 0x1.555556p-1f);
  const float square = 0.5f * f * f;
  const float small = s * fma_f32(series, z, square);
  const float n = (float)k;
  if (k == 0)
    return f - (square - small);
  return fma_f32(n, kLn2Hi, f - (square - fma_f32(n, kLn2Lo, small)));
}

/// 1 / (1 + e^-x); 0 below -88.7, where e^-x overflows, and 1 above 17.4.
DS4_DEVICE float sigmoid_f32(float x) {
  return div_f32(1.0f, 1.0f + exp_f32(-x));
}

/// log(1 + e^x), or x itself above 20.
DS4_DEVICE float softplus_f32(float x) {
  return x > 20.0f ? x : log1p_f32(exp_f32(x));
}

//===----------------------------------------------------------------------===//
// f16, bf16
//===----------------------------------------------------------------------===//

/// Value of IEEE binary16 bits; exact. A NaN becomes quiet.
DS4_DEVICE float f32_from_f16(u32 h) {
  const u32 sign = (h & 0x8000u) << 16;
  const u32 rest = h & 0x7fffu;
  if (rest >= 0x7c00u) // infinity, NaN
    return float_of(sign | 0x7f800000u | (rest & 0x3ffu) << 13 |
                    (rest > 0x7c00u ? 0x400000u : 0u));
  if (rest < 0x400u) // zero, subnormal: an integer times 2^-24
    return float_of(sign | bits_of((float)rest * 0x1p-24f));
  return float_of(sign | ((rest << 13) + (112u << 23)));
}

/// IEEE binary16 bits of x, round to nearest even; overflow gives infinity.
DS4_DEVICE u32 f16_from_f32(float x) {
  const u32 sign = (bits_of(x) >> 16) & 0x8000u;
  const u32 rest = bits_of(x) & 0x7fffffffu;
  if (rest > 0x7f800000u)
    return sign | 0x7e00u | (rest >> 13 & 0x3ffu);
  if (rest >= 0x477ff000u) // 65520 and more
    return sign | 0x7c00u;
  if (rest < 0x38800000u) // below 2^-14: the sum's ulp is 2^-24
    return sign | (bits_of(float_of(rest) + 0.5f) - bits_of(0.5f));
  return sign | ((rest + 0xfffu + (rest >> 13 & 1u) - (112u << 23)) >> 13);
}

/// Value of bfloat16 bits; exact.
DS4_DEVICE float f32_from_bf16(u32 h) { return float_of(h << 16); }

/// bfloat16 bits of x, round to nearest even; a NaN stays one.
DS4_DEVICE u32 bf16_from_f32(float x) {
  const u32 bits = bits_of(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return bits >> 16 | 0x40u;
  return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

//===----------------------------------------------------------------------===//
// E4M3, E2M1, UE4M3
//===----------------------------------------------------------------------===//

/// Value of an E4M3 code (no infinities; 0x7f and 0xff are NaN).
DS4_DEVICE float f32_from_e4m3(u32 code) {
  const u32 sign = (code & 0x80u) << 24;
  const u32 rest = code & 0x7fu;
  if (rest == 0x7fu)
    return float_of(sign | 0x7fc00000u);
  if (rest < 8u) // zero, subnormal: an integer times 2^-9
    return float_of(sign | bits_of((float)rest * 0x1p-9f));
  return float_of(sign | ((rest << 20) + (120u << 23)));
}

/// E4M3 code of x, round to nearest even, clamped to +-448; NaN gives 0x7f.
DS4_DEVICE u32 e4m3_from_f32(float x) {
  const u32 sign = (bits_of(x) >> 24) & 0x80u;
  const u32 rest = bits_of(x) & 0x7fffffffu;
  if (rest > 0x7f800000u)
    return 0x7fu;
  if (rest >= 0x43e00000u) // 448 and more
    return sign | 0x7eu;
  if (rest < 0x3c800000u) // below 2^-6: the sum's ulp is 2^-9
    return sign | (bits_of(float_of(rest) + 16384.0f) - bits_of(16384.0f));
  return sign | ((rest + 0x7ffffu + (rest >> 20 & 1u) - (120u << 23)) >> 20);
}

/// Value of an E2M1 code: 0, 0.5, 1, 1.5, 2, 3, 4, 6; bit 3 is the sign.
DS4_DEVICE float f32_from_e2m1(u32 code) {
  const u32 rest = code & 7u;
  // 1, 1.5, 2, ... have the exponent in bits 1-2 and one mantissa bit.
  const u32 bits = rest < 2u ? rest * 0x3f000000u : (rest << 22) + (126u << 23);
  return float_of((code & 8u) << 28 | bits);
}

/// E2M1 code of x, ties to the even code, clamped to +-6; NaN gives 0.
DS4_DEVICE u32 e2m1_from_f32(float x) {
  if (x != x)
    return 0u;
  const float a = float_of(bits_of(x) & 0x7fffffffu);
  const u32 code = (u32)(a > 0.25f) + (u32)(a >= 0.75f) + (u32)(a > 1.25f) +
                   (u32)(a >= 1.75f) + (u32)(a > 2.5f) + (u32)(a >= 3.5f) +
                   (u32)(a > 5.0f);
  return (bits_of(x) >> 28 & 8u) | code;
}

/// Value of a ROCmFPX scale byte (unsigned E4M3 halved, docs/formats.md);
/// invalid bytes (0x7f and more) give 0.
DS4_DEVICE float f32_from_ue4m3(u32 code) {
  // (8 + m) 2^(e - 11), or m 2^-10 where e is 0.
  if constexpr (kSubnormalsAreFast)
    return code >= 0x7fu ? 0.0f : float_of(code << 20) * 0x1p119f;
  const float small = (float)code * 0x1p-10f;
  const float value = float_of((code << 20) + (119u << 23));
  return code >= 0x7fu ? 0.0f : code < 8u ? small : value;
}

/// f32_from_ue4m3 of bits 0 to 6 of byte i < 3 of `codes`, which are not 0x7f.
DS4_DEVICE float f32_from_valid_ue4m3(u32 codes, u32 i) {
  if constexpr (kSubnormalsAreFast)
    return float_of(codes << (20 - 8 * i) & 0x07f00000u) * 0x1p119f;
  return f32_from_ue4m3(codes >> (8 * i) & 0x7fu);
}

//===----------------------------------------------------------------------===//
// FP8 and FP4 blocks: a power-of-two scale and a code a value
//===----------------------------------------------------------------------===//

/// The greater of m and |x|, by bit pattern: a NaN is the greatest, so that
/// it is not lost. m >= 0.
DS4_DEVICE float max_abs(float m, float x) {
  const u32 bits = bits_of(x) & 0x7fffffffu;
  return bits > bits_of(m) ? float_of(bits) : m;
}

/// Biased exponent e of the smallest power of two 2^(e - 127) >= x; x is
/// positive and normal. 255 for infinity and NaN.
DS4_DEVICE u32 exponent_above(float x) {
  const u32 e = (bits_of(x) + 0x7fffffu) >> 23;
  return e > 255u ? 255u : e;
}

/// Exponent byte of a block with this greatest magnitude: scale =
/// 2^ceil(log2(max(amax, floor) / top)). E4M3: floor 1e-4, top 448.
DS4_DEVICE u32 fp8_exponent(float amax) {
  return exponent_above(div_f32(amax < 1e-4f ? 1e-4f : amax, 448.0f));
}
/// E2M1: floor 6 * 2^-126, top 6.
DS4_DEVICE u32 fp4_exponent(float amax) {
  return exponent_above(div_f32(amax < 0x1.8p-124f ? 0x1.8p-124f : amax, 6.0f));
}

/// 2^(e - 127), and infinity for 255: a block that held an infinity or a NaN
/// decodes to NaN.
DS4_DEVICE float block_scale(u32 e) { return float_of(e << 23); }
DS4_DEVICE float fp8_scale(float amax) {
  return block_scale(fp8_exponent(amax));
}
DS4_DEVICE float fp4_scale(float amax) {
  return block_scale(fp4_exponent(amax));
}

/// 1 / 2^(e - 127), exact for the exponents that the two functions above give
/// (x times this is the correctly rounded x / scale); 0 for 255.
DS4_DEVICE float block_inverse(u32 e) {
  return e == 255u ? 0.0f : float_of((254u - e) << 23);
}

/// Code of x in a block with exponent byte e, and the value of a code.
DS4_DEVICE u32 fp8_code(float x, u32 e) {
  return e == 255u ? 0u : e4m3_from_f32(x * block_inverse(e));
}
DS4_DEVICE u32 fp4_code(float x, u32 e) {
  return e == 255u ? 0u : e2m1_from_f32(x * block_inverse(e));
}
DS4_DEVICE float fp8_value(u32 code, u32 e) {
  return f32_from_e4m3(code) * block_scale(e);
}
DS4_DEVICE float fp4_value(u32 code, u32 e) {
  return f32_from_e2m1(code) * block_scale(e);
}

/// The round trip of one value.
DS4_DEVICE float fp8_simulate(float x, u32 e) {
  return fp8_value(fp8_code(x, e), e);
}
DS4_DEVICE float fp4_simulate(float x, u32 e) {
  return fp4_value(fp4_code(x, e), e);
}

//===----------------------------------------------------------------------===//
// int8 activations
//===----------------------------------------------------------------------===//

/// Scale of a block whose greatest magnitude is amax (see max_abs).
DS4_DEVICE float int8_scale(float amax) { return div_f32(amax, 127.0f); }

/// round-half-even(x / scale), clamped to +-127; 0 if scale is 0 or NaN.
DS4_DEVICE i32 int8_code(float x, float scale) {
  const float q = div_f32(x, scale);
  if (!(scale > 0.0f) || q != q)
    return 0;
  const float clamped = q > 127.0f ? 127.0f : q < -127.0f ? -127.0f : q;
  return (i32)(bits_of(clamped + kRoundMagic) - bits_of(kRoundMagic));
}

#endif // DS4_OPS_NUMBERS_H
