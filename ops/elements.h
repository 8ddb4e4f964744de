// elements.h - which items of a row a thread of an elementwise body does: a
// block does a tile of kTile neighbours, neighbouring threads do neighbouring
// items:
//
//   for (u32 i = tile_begin(block); i < tile_end(block, n); i += kThreads)

DS4_DEVICE u32 tile_begin(u32 block) { return block * kTile + thread_x(); }

/// n: items of the row.
DS4_DEVICE u32 tile_end(u32 block, u32 n) {
  const u32 end = (block + 1) * kTile;
  return end < n ? end : n;
}
