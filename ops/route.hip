// route.hip - chooses experts by biased score and weighs them by score. One
// block a row: a thread counts how many experts come before its own, which is
// the expert's place.
//
//   s = sqrt(softplus(logit)); the k best s + bias;
//   weight = s / max(sum of the chosen s, 2^-14) * scale
//
// | constant | |
// |---|---|
// | kExperts, kUsed | E, k |
// | kScale | |

#include "router.h"
#include "selection.h"

DS4_DEVICE void run(u32 block, u32 row, const float *logits, const float *bias,
                    i32 *experts, float *weights, StepStatus *status,
                    const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  DS4_SHARED float scores[kExperts];
  // Read by fours; those behind the last expert are below every key.
  constexpr u32 kKeys = (kExperts + 3) / 4 * 4;
  alignas(16) DS4_SHARED u32 keys[kKeys];
  DS4_SHARED float chosen[kUsed];
  logits += static_cast<u64>(row) * kExperts;
  for (u32 e = thread_x(); e < kExperts; e += kThreads) {
    if (is_nan(logits[e]))
      report_nan(status, row);
    scores[e] = router_score(logits[e]);
    keys[e] = order_key(scores[e] + bias[e]);
  }
  for (u32 e = kExperts + thread_x(); e < kKeys; e += kThreads)
    keys[e] = 0;
  barrier();
  for (u32 e = thread_x(); e < kExperts; e += kThreads) {
    const u32 key = keys[e];
    u32 place = 0;
    DS4_PREFETCH(8)
    for (u32 f = 0; f < kKeys; f += 4) {
      u32 four[4];
      load_aligned<16>(reinterpret_cast<u8 *>(four),
                       reinterpret_cast<const u8 *>(keys + f));
      DS4_REGISTERS
      for (u32 j = 0; j < 4; ++j)
        // Of equal keys those of lower experts come before.
        place += f + j < e ? four[j] >= key : four[j] > key;
    }
    if (place < kUsed) {
      experts[row * kUsed + place] = static_cast<i32>(e);
      chosen[place] = scores[e];
    }
  }
  barrier();
  for (u32 i = thread_x(); i < kUsed; i += kThreads)
    weights[row * kUsed + i] = router_weight(chosen, i);
}
