// dot4_blocks.hip - blocks of a row times int8 codes, element by element and
// four codes at a time: y[2 b] by block_dot, y[2 b + 1] by block_dot4, for tests
// of the decoders. sizes: blocks. DS4_FORMAT is the decoder's header, DS4_BOOKS
// what both take last.
#define DS4_SYMBOL dot4_blocks
#include "common.h"
constexpr u32 kThreads = 32;
#include DS4_FORMAT

DS4_KERNEL(kThreads)
void DS4_SYMBOL(const u8 *row, const i8 *codes, const u8 *books, float *y,
                const u32 *sizes) {
  for (u32 b = lane(); b < sizes[0]; b += kWave) {
    u32 x[8];
    __builtin_memcpy(x, codes + 32 * b, sizeof x);
    y[2 * b] = block_dot(row, b, codes + 32 * b, 0.37f, 1.5f DS4_BOOKS);
    y[2 * b + 1] =
        block_dot4(row + b * kBlockBytes, x, 0.37f, 1.5f DS4_BOOKS);
  }
}
DS4_ENTRY(DS4_SYMBOL)
