// butterflies.h - the unscaled Walsh-Hadamard transform of values that one lane
// holds, in natural order.
/// The stages 1, 2, ..., n/2.
template <u32 n> DS4_DEVICE void butterflies(float (&v)[n]) {
  for (u32 s = 1; s < n; s *= 2)
    for (u32 i = 0; i < n; ++i)
      if ((i & s) == 0) {
        const float a = v[i], b = v[i + s];
        v[i] = a + b;
        v[i + s] = a - b;
      }
}
