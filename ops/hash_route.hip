// hash_route.hip - experts from a table by token id, weighed by score. One wave
// a row. If fewer experts are used than the table lists, the best of the row
// stay, highest score first.
//
//   s = sqrt(softplus(logit)); weights as route
//
// | constant | |
// |---|---|
// | kExperts, kUsed | E, k |
// | kListed | n, experts a table row, at least k |
// | kScale | |

#include "router.h"
#include "selection.h"

DS4_DEVICE void run(u32 block, u32 row, const float *logits, const i32 *tokens,
                    const i32 *table, i32 *experts, float *weights,
                    StepStatus *status, const Step *step) {
  if (row >= row_count(kRatio, step))
    return;
  DS4_SHARED float scores[kListed];
  DS4_SHARED float chosen[kUsed];
  logits += static_cast<u64>(row) * kExperts;
  table += static_cast<u64>(tokens[row]) * kListed;
  for (u32 e = thread_x(); e < kExperts; e += kThreads)
    if (is_nan(logits[e]))
      report_nan(status, row);
  for (u32 i = thread_x(); i < kListed; i += kThreads)
    scores[i] = router_score(logits[table[i]]);
  barrier();
  for (u32 i = thread_x(); i < kListed; i += kThreads) {
    u32 place = i;
    if constexpr (kUsed < kListed) {
      const u32 key = order_key(scores[i]);
      place = 0;
      for (u32 j = 0; j < kListed; ++j) {
        const u32 other = order_key(scores[j]);
        // An expert that is listed twice keeps the order of the table.
        const bool lower =
            table[j] < table[i] || (table[j] == table[i] && j < i);
        place += other > key || (other == key && lower);
      }
    }
    if (place < kUsed) {
      experts[row * kUsed + place] = table[i];
      chosen[place] = scores[i];
    }
  }
  barrier();
  for (u32 i = thread_x(); i < kUsed; i += kThreads)
    weights[row * kUsed + i] = router_weight(chosen, i);
}
