// rotation.h - ds4.rotate of one block of 32 values, for the kernels that read
// the inputs of rotated experts.
#include "butterflies.h"

/// v becomes H v. The factor is f32(1 / sqrt(32)).
DS4_DEVICE void rotate_block(float (&v)[32]) {
  butterflies(v);
  for (u32 j = 0; j < 32; ++j)
    v[j] *= 0x1.6a09e6p-3f;
}
