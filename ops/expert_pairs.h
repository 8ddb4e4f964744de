// expert_pairs.h - which (token, expert) pairs of a group of kColumns tokens a
// wave does together: all that use one expert, so that its rows are decoded
// once for them. Constants: kUsed (experts of a token), kColumns.

/// Pairs t * kUsed + i of the group that use one expert, ascending.
struct Pairs {
  u32 pair[kColumns];
  u32 count; ///< 0: another wave does what this one would
};

/// The work of the wave for pair `first` of `pairs`: of an expert's pairs,
/// every kColumns-th leads those up to the next leader. experts: of the group's
/// tokens.
DS4_DEVICE Pairs pairs_led_by(u32 first, u32 pairs, const i32 *experts) {
  Pairs led;
  led.count = 0;
  if (first >= pairs)
    return led;
  const i32 expert = experts[first];
  if constexpr (kColumns > 1) {
    u32 before = 0;
    for (u32 p = 0; p < first; ++p)
      before += experts[p] == expert;
    if (before % kColumns != 0)
      return led;
  }
  for (u32 c = 0; c < kColumns; ++c)
    led.pair[c] = first;
  led.count = 1;
  for (u32 p = first + 1; p < pairs; ++p)
    if (experts[p] == expert)
#pragma unroll
      for (u32 c = 1; c < kColumns; ++c) // static indices stay in registers
        if (c == led.count) {
          led.pair[c] = p;
          ++led.count;
          break;
        }
  return led;
}
