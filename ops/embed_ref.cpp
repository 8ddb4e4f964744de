// embed_ref.cpp - oracle of ds4.embed.
#include "ops/Reference.h"

#include <algorithm>
#include <cassert>

namespace ds4::ref {

void embed(Ints tokens, const Weight &table, uint64_t streams,
           std::span<float> result) {
  const uint64_t hidden = table.columns;
  assert(result.size() == tokens.size() * streams * hidden);
  for (uint64_t t = 0; t < tokens.size(); ++t) {
    const std::vector<float> row =
        weightRow(table, static_cast<uint64_t>(tokens[t]));
    for (uint64_t m = 0; m < streams; ++m)
      std::ranges::copy(row, result.begin() + (t * streams + m) * hidden);
  }
}

} // namespace ds4::ref
