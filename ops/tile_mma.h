// tile_mma.h - integer matrix instructions of every target behind one name: the
// part of the prelude for kernels that use them. By a whole wave, for 16 lines
// of A and 16 of B:
//
//   products[a, b] = A[a] . B[b]
//
#ifndef DS4_OPS_TILE_MMA_H
#define DS4_OPS_TILE_MMA_H

// Products come as kTileZero + sum, of which tile_value is the sum as a float:
// the bits of 1.5 * 2^23 + sum, one subtraction instead of a conversion at half
// the rate. Exact for |sum| < 2^22; 32 products of int8 are below 2^19.
constexpr i32 kTileZero = 0x4b400000;

DS4_DEVICE float tile_value(i32 product) {
  return float_of(static_cast<u32>(product)) - 12582912.0f;
}

// Register r of a lane holds four int8 of the 32 values of a line of A (or B):
// those from tile_first(r) on of line tile_line(r); product e is of line
// tile_a(e) of A and tile_b(e) of B. Half 0 of the registers has the values
// 0 ... 15, half 1 the others. DS4_EMULATE_MMA: the host does as sm_90 does.
#if defined(DS4_TARGET_HOST)
#include "host_tiles.h"
#endif
#if defined(DS4_TARGET_NVIDIA) || defined(DS4_EMULATE_MMA)

constexpr u32 kTileRegisters = 4;
/// Whether the next products may be begun while sums are made of the last ones,
/// for more registers.
constexpr bool kTilesOverlap = true;

DS4_DEVICE u32 tile_line(u32 r) { return lane() / 4 + r % 2 * 8; }
DS4_DEVICE u32 tile_first(u32 r) { return r / 2 * 16 + lane() % 4 * 4; }
DS4_DEVICE u32 tile_a(u32 e) { return lane() / 4 + e % 4 / 2 * 8; }
DS4_DEVICE u32 tile_b(u32 e) { return e / 4 * 8 + lane() % 4 * 2 + e % 2; }

/// Products of one half's 16 values.
DS4_DEVICE void tile_mma_half_i8(const u32 (&a)[4], const u32 (&b)[4], u32 half,
                                 i32 (&products)[8]) {
  for (u32 n = 0; n < 2; ++n) {
    i32 *c = products + 4 * n;
#if defined(DS4_TARGET_HOST)
    c[0] = c[1] = c[2] = c[3] = kTileZero;
    emulated_mma_16x8x16(a[2 * half], a[2 * half + 1], b[2 * half + n], c);
#else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 "
                 "{%0,%1,%2,%3},{%4,%5},{%6},{%7,%7,%7,%7};"
                 : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
                 : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[2 * half + n]),
                   "r"(kTileZero));
#endif
  }
}

/// Products of all 32 values.
DS4_DEVICE void tile_mma_i8(const u32 (&a)[4], const u32 (&b)[4],
                            i32 (&products)[8]) {
  for (u32 n = 0; n < 2; ++n) {
    i32 *c = products + 4 * n;
#if defined(DS4_TARGET_HOST)
    c[0] = c[1] = c[2] = c[3] = kTileZero;
    emulated_mma_16x8x16(a[0], a[1], b[n], c);
    emulated_mma_16x8x16(a[2], a[3], b[2 + n], c);
#else
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%10,%10,%10,%10};"
                 : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[n]),
                   "r"(b[2 + n]), "r"(kTileZero));
#endif
  }
}

#else

constexpr u32 kTileRegisters = 8;
constexpr bool kTilesOverlap = false;

DS4_DEVICE u32 tile_line(u32) { return lane() % 16; }
DS4_DEVICE u32 tile_first(u32 r) { return 4 * r; }
DS4_DEVICE u32 tile_a(u32 e) { return 2 * e + lane() / 16; }
DS4_DEVICE u32 tile_b(u32) { return lane() % 16; }

/// Adds the products of one half's 16 values.
DS4_DEVICE void tile_add_half(const u32 (&a)[8], const u32 (&b)[8], u32 half,
                              i32 (&products)[8]) {
#if defined(DS4_TARGET_HOST)
  emulated_wmma_16x16x16(a + 4 * half, b + 4 * half, products);
#else
  typedef i32 Four __attribute__((ext_vector_type(4)));
  typedef i32 Eight __attribute__((ext_vector_type(8)));
  Four x, y;
  Eight c;
  __builtin_memcpy(&x, a + 4 * half, sizeof x);
  __builtin_memcpy(&y, b + 4 * half, sizeof y);
  __builtin_memcpy(&c, products, sizeof c);
  c = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, x, true, y, c, false);
  // LLVM 19 would move it below a divergent branch.
  asm volatile("" : "+v"(c));
  __builtin_memcpy(products, &c, sizeof c);
#endif
}

/// Products of one half's 16 values.
DS4_DEVICE void tile_mma_half_i8(const u32 (&a)[8], const u32 (&b)[8], u32 half,
                                 i32 (&products)[8]) {
  for (u32 e = 0; e < 8; ++e)
    products[e] = kTileZero;
  tile_add_half(a, b, half, products);
}

/// Products of all 32 values.
DS4_DEVICE void tile_mma_i8(const u32 (&a)[8], const u32 (&b)[8],
                            i32 (&products)[8]) {
  tile_mma_half_i8(a, b, 0, products);
  tile_add_half(a, b, 1, products);
}

#endif

#endif // DS4_OPS_TILE_MMA_H
