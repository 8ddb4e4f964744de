// append_ref.cpp - oracle of ds4.append.
#include "ops/Reference.h"

#include <cassert>

namespace ds4::ref {

void append(const Rows &rows, Floats x, State &state) {
  assert(x.size() == rows.count() * state.width);
  // Ascending, so that the later of two rows with one slot stays.
  for (uint64_t i = 0; i < rows.count(); ++i)
    state.write(rows.number(i), x.subspan(i * state.width, state.width));
}

} // namespace ds4::ref
