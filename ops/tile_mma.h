// tile_mma.h - matrix instructions of every target behind one name: the part of
// the prelude for kernels that use them. By a group of four waves, for 16 lines
// of A of each wave and kTileRows = 64 lines of B, each of 16 or 32 values:
//
//   products[a, b] = A[a] . B[b]
//
// exactly: values are integers, or those of a line integers times one power of
// two. A lane has words of the lines of A, by halves of 16 values (load_codes),
// and products of them with kTurnRows lines of B: product e is of line
// tile_a(e) of A and tile_b(e) of those of B. DS4_EMULATE_MMA: the host does as
// sm_90 does.
#ifndef DS4_OPS_TILE_MMA_H
#define DS4_OPS_TILE_MMA_H

constexpr u32 kTileLines = 16, kTileRows = 64;

#if defined(DS4_TARGET_HOST)
#include "host_tiles.h"
#endif
#if defined(DS4_TARGET_NVIDIA) || defined(DS4_EMULATE_MMA)

// Values are binary16, whose 11 bits hold a level of 7 times a scale of 4; the
// sums of 32 products with int8 are below 2^23, where f32 counts by ones. So
// the sum of a scale is there without a conversion and a product.

/// Values of a tile are binary16, otherwise int8.
constexpr bool kTileHalves = true;
/// Products are made while others are added.
constexpr bool kTilesOverlap = true;
/// Rows of which products are made at a time; products of a lane; of them those
/// of neighbouring rows that are beside each other.
constexpr u32 kTurnRows = 32, kTurnProducts = 16, kProductsBeside = 2;

DS4_DEVICE u32 tile_a(u32 e) { return lane() / 4 + e % 4 / 2 * 8; }
DS4_DEVICE u32 tile_b(u32 e) { return e / 4 * 8 + lane() % 4 * 2 + e % 2; }

/// Two binary16 of x, which is one.
DS4_DEVICE u32 twice_half(float x) {
#if defined(DS4_TARGET_HOST)
  return f16_from_f32(x) * 0x10001u;
#else
  u32 result;
  asm("cvt.rn.f16x2.f32 %0,%1,%1;" : "=r"(result) : "f"(x));
  return result;
#endif
}

/// a b + c of two binary16 each.
DS4_DEVICE u32 fma_halves(u32 a, u32 b, u32 c) {
  u32 result;
#if defined(DS4_TARGET_HOST)
  result = 0;
  for (u32 i = 0; i < 32; i += 16)
    result |= f16_from_f32(fma_f32(f32_from_f16(a >> i & 0xffffu),
                                   f32_from_f16(b >> i & 0xffffu),
                                   f32_from_f16(c >> i & 0xffffu)))
              << i;
#else
  asm("fma.rn.f16x2 %0,%1,%2,%3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
#endif
  return result;
}

/// Values of rows lie by eights: of 8 values of all rows, 16 bytes each, then
/// of the next 8; the padding has neighbouring lanes store in different banks.
constexpr u32 kEightBytes = 16 * kTileRows + 16;
/// Bytes of the values of a block of 32, and from one row to the next.
constexpr u32 kBlockValues = 4 * kEightBytes, kRowPitch = 16;
constexpr u32 kBlockHalf = kBlockValues / 2;

/// Makes values of int8: times `scale`, a float of 4 bits, below 2^5.
class TileValues {
public:
  DS4_DEVICE explicit TileValues(float of)
      : scale(twice_half(of)), bias(fma_halves(scale, 0xe480e480u, 0)) {
  } // -1152

  /// Stores those of the 16 int8 of half `half` of a row's block, whose values
  /// are at `to`: of each four the first two, then the others (load_codes).
  DS4_DEVICE void store_half(const u32 *levels, u32 half, u8 *to) const {
    u32 halves[2][4];
#pragma unroll
    for (u32 k = 0; k < 4; ++k)
      make(levels[k], halves[0][k], halves[1][k]);
#pragma unroll
    for (u32 i = 0; i < 2; ++i)
      store_words(to + (2 * half + i) * kEightBytes, halves[i]);
  }

  /// Of four int8 the first two and the others.
  DS4_DEVICE void make(u32 four, u32 &first, u32 &second) const {
    // With the byte x + 128 behind it 0x64 makes 1152 + x.
    const u32 bytes = four ^ 0x80808080u;
    first = fma_halves(pick_bytes(bytes, 0x64646464u, 0x4140u), scale, bias);
    second = fma_halves(pick_bytes(bytes, 0x64646464u, 0x4342u), scale, bias);
  }

private:
  u32 scale, bias;
};

/// The calling lane's words of two halves of 16 lines of int8 in LDS, `pitch`
/// bytes from one to the next. The instruction takes values 2 t, 2 t + 1,
/// 2 t + 8 and 2 t + 9 of a half from lane t mod 4, which has read four codes.
DS4_DEVICE void load_codes(const u8 *lines, u32 pitch, u32 (&words)[2][4]) {
  const TileValues unscaled(1.0f);
#pragma unroll
  for (u32 half = 0; half < 2; ++half)
#pragma unroll
    for (u32 i = 0; i < 2; ++i)
      unscaled.make(load_word(lines + (lane() / 4 + i * 8) * pitch + half * 16 +
                              lane() % 4 * 4),
                    words[half][i], words[half][2 + i]);
}

#if defined(DS4_TARGET_HOST)
typedef const u8 *RowValues;
DS4_DEVICE RowValues row_values(const u8 *values) { return values; }
DS4_DEVICE RowValues values_behind(RowValues values, u32 bytes) {
  return values + bytes;
}
#else
/// Values of rows in LDS as the instruction wants them (PTX ISA, "Matrix
/// descriptor"): where they begin, how far it is to the next 8 values and to
/// the next 8 rows, in units of 16 bytes.
typedef u64 RowValues;
DS4_DEVICE RowValues row_values(const u8 *values) {
  return static_cast<u64>(8 * kRowPitch / 16) << 32 |
         static_cast<u64>(kEightBytes / 16) << 16 | shared_address(values) >> 4;
}
DS4_DEVICE RowValues values_behind(RowValues values, u32 bytes) {
  return values + bytes / 16;
}
#endif

/// Values that the lane has stored are visible to the matrix instructions of
/// those that come to a barrier afterwards.
DS4_DEVICE void values_stored() {
#if defined(DS4_TARGET_NVIDIA)
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/// products = those of a half of A and kTurnRows rows, or of those and what is
/// there: begun, and there after products_done. `values`: of the half and the
/// first row. By the four waves of a group together.
template <bool kAdd>
DS4_DEVICE void begin_products(const u32 (&a)[4], RowValues values,
                               float (&products)[16]) {
#if defined(DS4_TARGET_HOST)
  emulated_wgmma_64x32x16(a, values, kEightBytes, kAdd, products);
#else
  float *d = products;
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %21, 0;"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15},"
      "{%16,%17,%18,%19},%20,p,1,1,0;}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
        "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]),
        "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(values), "n"(kAdd));
#endif
}

/// Around those begin_products that products_done waits for together.
DS4_DEVICE void open_products() {
#if defined(DS4_TARGET_NVIDIA)
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
DS4_DEVICE void close_products() {
#if defined(DS4_TARGET_NVIDIA)
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

/// `products` are there: all that were closed, but for the last kButLast times.
template <u32 kButLast> DS4_DEVICE void products_done(float (&products)[16]) {
#if defined(DS4_TARGET_NVIDIA)
  float *d = products;
  asm volatile("wgmma.wait_group.sync.aligned %16;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]),
                 "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),
                 "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
                 "+f"(d[14]), "+f"(d[15])
               : "n"(kButLast)
               : "memory");
#else
  (void)products;
#endif
}

#else

constexpr bool kTileHalves = false, kTilesOverlap = false;
constexpr u32 kTurnRows = 16, kTurnProducts = 8, kProductsBeside = 1;

DS4_DEVICE u32 tile_a(u32 e) { return 2 * e + lane() / 16; }
DS4_DEVICE u32 tile_b(u32) { return lane() % 16; }

/// Values of rows lie row by row, kStage (tile.h) blocks each; the padding has
/// lanes read different banks.
constexpr u32 kBlockValues = 32, kRowPitch = 32 * kStage + 16;
constexpr u32 kBlockHalf = kBlockValues / 2;

struct TileValues {
  DS4_DEVICE explicit TileValues(float) {}
  DS4_DEVICE void store_half(const u32 *levels, u32 half, u8 *to) const {
    store_aligned<16>(to + 16 * half, reinterpret_cast<const u8 *>(levels));
  }
};

/// As above: the 16 int8 of a half of line lane % 16, as they are.
DS4_DEVICE void load_codes(const u8 *lines, u32 pitch, u32 (&words)[2][4]) {
#pragma unroll
  for (u32 half = 0; half < 2; ++half)
    load_words(words[half], lines + lane() % 16 * pitch + 16 * half);
}

typedef const u8 *RowValues;
DS4_DEVICE RowValues row_values(const u8 *values) { return values; }
DS4_DEVICE RowValues values_behind(RowValues values, u32 bytes) {
  return values + bytes;
}
DS4_DEVICE void values_stored() {}
DS4_DEVICE void open_products() {}
DS4_DEVICE void close_products() {}

// Integer products begin at the bits of kProductZero, 1.5 * 2^23, whose last
// bits then are the sum: a subtraction makes it a float, where a conversion has
// half the rate. Exact for |sum| < 2^22; 32 products of int8 are below 2^19.
constexpr float kProductZero = 12582912.0f;
template <u32 kButLast> DS4_DEVICE void products_done(float (&products)[8]) {
#pragma unroll
  for (u32 e = 0; e < 8; ++e)
    products[e] = products[e] - kProductZero;
}

/// Adds the products of one half's 16 values.
DS4_DEVICE void wmma_i8(const u32 (&a)[4], const u32 (&b)[4],
                        i32 (&products)[8]) {
#if defined(DS4_TARGET_HOST)
  emulated_wmma_16x16x16(a, b, products);
#else
  typedef i32 Four __attribute__((ext_vector_type(4)));
  typedef i32 Eight __attribute__((ext_vector_type(8)));
  Four x, y;
  Eight c;
  __builtin_memcpy(&x, a, sizeof x);
  __builtin_memcpy(&y, b, sizeof y);
  __builtin_memcpy(&c, products, sizeof c);
  c = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, x, true, y, c, false);
  // LLVM 19 would move it below a divergent branch.
  asm volatile("" : "+v"(c));
  __builtin_memcpy(products, &c, sizeof c);
#endif
}

/// As above; made at once, but for the subtraction of products_done.
template <bool kAdd>
DS4_DEVICE void begin_products(const u32 (&a)[4], RowValues values,
                               float (&products)[8]) {
  u32 b[4];
  load_words(b, values + lane() % 16 * kRowPitch);
  i32 sums[8];
#pragma unroll
  for (u32 e = 0; e < 8; ++e)
    sums[e] = static_cast<i32>(bits_of(kAdd ? products[e] : kProductZero));
  wmma_i8(a, b, sums);
#pragma unroll
  for (u32 e = 0; e < 8; ++e)
    products[e] = float_of(static_cast<u32>(sums[e]));
}

#endif

#endif // DS4_OPS_TILE_MMA_H
