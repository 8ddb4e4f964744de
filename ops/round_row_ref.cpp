// round_row_ref.cpp - oracle of ds4.round_row: a row goes through a state.
#include "ops/Reference.h"

#include <algorithm>

namespace ds4::ref {

void roundRow(RowStorage storage, uint64_t width, Floats x,
              std::span<float> result) {
  State state(1, width, storage);
  for (uint64_t v = 0; v < x.size(); v += width) {
    state.write(0, x.subspan(v, width));
    std::ranges::copy(state.read(0), result.begin() + v);
  }
}

} // namespace ds4::ref
