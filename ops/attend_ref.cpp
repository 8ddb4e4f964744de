// attend_ref.cpp - oracle of ds4.attend.
#include "ops/Reference.h"
#include "ops/prelude.h"

#include <algorithm>
#include <cassert>

namespace ds4::ref {

namespace {

constexpr uint64_t kTile = 32;

using Row = std::vector<float>;
using Tile = std::vector<Row>;

/// Softmax statistics and weighted value sum of one head.
struct Partial {
  float m, z;
  std::vector<float> o;
};

Partial reduceTile(Floats q, const Tile &tile, float scale) {
  std::vector<float> s;
  for (const Row &row : tile)
    s.push_back(segmentedDot(q, row) * scale);
  Partial part{s[0], 0, std::vector<float>(q.size())};
  for (float x : s)
    part.m = x > part.m ? x : part.m;
  for (uint64_t r = 0; r < tile.size(); ++r) {
    const float e = exp_f32(s[r] - part.m);
    part.z += e;
    for (uint64_t i = 0; i < q.size(); ++i)
      part.o[i] = fma_f32(e, tile[r][i], part.o[i]);
  }
  return part;
}

void merge(Partial &all, const Partial &tile) {
  const float m = all.m > tile.m ? all.m : tile.m;
  const float a = exp_f32(all.m - m), b = exp_f32(tile.m - m);
  all.z = fma_f32(tile.z, b, all.z * a);
  for (uint64_t i = 0; i < all.o.size(); ++i)
    all.o[i] = fma_f32(tile.o[i], b, all.o[i] * a);
  all.m = m;
}

} // namespace

void attend(const AttendParams &params, const Step &step, Floats q, Floats kv,
            const State &ring, Floats sinks, const State *compressed,
            Ints selected, std::span<float> result) {
  const uint64_t heads = params.heads, width = params.width;
  const uint64_t tokens = step.count, start = step.start;
  assert(q.size() == tokens * heads * width && kv.size() == tokens * width &&
         ring.width == width && sinks.size() == heads);

  for (uint64_t t = 0; t < tokens; ++t) {
    const uint64_t p = start + t;
    std::vector<Tile> tiles;
    const uint64_t first = p + 1 > params.window ? p + 1 - params.window : 0;
    for (uint64_t position = first; position <= p; ++position) {
      if (tiles.empty() || position % kTile == 0)
        tiles.emplace_back();
      if (position < start) {
        tiles.back().push_back(ring.read(position));
      } else {
        const Floats own = kv.subspan((position - start) * width, width);
        tiles.back().emplace_back(own.begin(), own.end());
      }
    }
    if (compressed) {
      const uint64_t k = selected.size() / tokens;
      uint64_t entries = visibleRows(p, params.ratio);
      if (!selected.empty())
        entries = std::min(entries, k);
      for (uint64_t j = 0; j < entries; ++j) {
        if (j % kTile == 0)
          tiles.emplace_back();
        tiles.back().push_back(compressed->read(
            selected.empty() ? j : static_cast<uint64_t>(selected[t * k + j])));
      }
    }

    for (uint64_t h = 0; h < heads; ++h) {
      const uint64_t at = (t * heads + h) * width;
      Partial all{sinks[h], 1, std::vector<float>(width)};
      for (const Tile &tile : tiles)
        merge(all, reduceTile(q.subspan(at, width), tile, params.scale));
      for (uint64_t i = 0; i < width; ++i)
        result[at + i] = all.o[i] / all.z;
    }
  }
}

} // namespace ds4::ref
