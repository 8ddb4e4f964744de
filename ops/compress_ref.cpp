// compress_ref.cpp - oracle of ds4.compress.
#include "ops/Reference.h"
#include "ops/prelude.h"

#include <cassert>

namespace ds4::ref {

void compress(const Step &step, uint64_t ratio, bool overlap, Floats kv,
              Floats gate, const State &kvRing, const State &gateRing,
              std::span<float> result) {
  const uint64_t channels = kvRing.width;
  const uint64_t width = overlap ? channels / 2 : channels;
  const uint64_t start = step.start;
  const Rows windows{static_cast<RowRatio>(ratio), step};
  assert(result.size() == windows.count() * width);

  // The row of a token: of this step, or of an earlier one.
  const auto rowOf = [&](Floats own, const State &ring, uint64_t position) {
    if (position < start)
      return ring.read(position);
    const Floats row = own.subspan((position - start) * channels, channels);
    return std::vector<float>(row.begin(), row.end());
  };

  for (uint64_t i = 0; i < windows.count(); ++i) {
    const uint64_t w = windows.number(i);
    struct Slot {
      std::vector<float> k, g;
      uint64_t firstChannel;
    };
    std::vector<Slot> slots;
    const auto addWindow = [&](uint64_t window, uint64_t firstChannel) {
      for (uint64_t t = ratio * window; t < ratio * (window + 1); ++t)
        slots.push_back(
            {rowOf(kv, kvRing, t), rowOf(gate, gateRing, t), firstChannel});
    };
    if (overlap && w > 0)
      addWindow(w - 1, 0);
    addWindow(w, overlap ? width : 0);

    for (uint64_t c = 0; c < width; ++c) {
      float top = slots[0].g[slots[0].firstChannel + c];
      for (const Slot &slot : slots) {
        const float g = slot.g[slot.firstChannel + c];
        top = g > top ? g : top;
      }
      float z = 0, v = 0;
      for (const Slot &slot : slots) {
        const float e = exp_f32(slot.g[slot.firstChannel + c] - top);
        z += e;
        v = fma_f32(e, slot.k[slot.firstChannel + c], v);
      }
      result[i * width + c] = v / z;
    }
  }
}

} // namespace ds4::ref
