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

/// item(i, values) for the thread's items of the tile, n a row, then store(i,
/// values): four at a time, so that what they load is on its way together.
template <u32 kValues, typename Item, typename Store>
DS4_DEVICE void each_item(u32 block, u32 n, Item item, Store store) {
  constexpr u32 kBatch = 4;
  const u32 end = tile_end(block, n);
  for (u32 first = tile_begin(block); first < end; first += kBatch * kThreads) {
    float values[kBatch][kValues];
    DS4_REGISTERS
    for (u32 b = 0; b < kBatch; ++b)
      if (const u32 i = first + b * kThreads; i < end)
        item(i, values[b]);
    DS4_REGISTERS
    for (u32 b = 0; b < kBatch; ++b)
      if (const u32 i = first + b * kThreads; i < end)
        store(i, values[b]);
  }
}
