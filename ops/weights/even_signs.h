// even_signs.h - seven bits of signs; the eighth makes the number of ones even.
// Signs of ggml's IQ2_XXS and IQ3_XXS.
#ifndef DS4_OPS_WEIGHTS_EVEN_SIGNS_H
#define DS4_OPS_WEIGHTS_EVEN_SIGNS_H

DS4_DEVICE u32 even_signs(u32 seven) {
  u32 parity = seven ^ seven >> 4;
  parity ^= parity >> 2;
  parity ^= parity >> 1;
  return seven | (parity & 1) << 7;
}

#endif // DS4_OPS_WEIGHTS_EVEN_SIGNS_H
