// lanes.h - rows in layout `lanes` (runtime/WeightLayout.h has the formula): a
// lane loads whole aligned units of its segment and puts the blocks of a chunk
// together in registers, in the format's own byte order, for the one decoder.
// Only int8 activations have it.
//
// | constant | |
// |---|---|
// | kSegmentBlocks, kChunkBlocks | blocks of a segment, of a chunk |
// | kSplit | bytes of a block's first part |
// | kUnit0, kUnit1 | bytes of a unit in each plane |
// | kPlane1 | where the second plane begins in a row |
#include "layouts/codes_dot.h"
#include "layouts/row_parts.h"
#include "sums.h"

/// The calling lane's parts of a chunk, kChunkBlocks of kPart bytes, from a
/// plane of the row.
template <u32 kPart, u32 kUnit>
DS4_DEVICE void load_parts(const u8 *plane, u32 chunk,
                           u8 (&parts)[kChunkBlocks * kPart]) {
  constexpr u32 kUnits = kChunkBlocks * kPart / kUnit;
  plane += (8 * kUnits * chunk + lane() % 8) * kUnit;
#pragma unroll
  for (u32 i = 0; i < kUnits; ++i)
    load_aligned<kUnit>(parts + i * kUnit, plane + 8 * i * kUnit);
}

/// As in layouts/file.h.
template <typename Code, u32 kCount, typename... Books>
DS4_DEVICE void segment_shares(const u8 *row,
                               const Code *const (&codes)[kCount],
                               const float *const (&scales)[kCount], u32 count,
                               float (&sums)[8], Books... books) {
  constexpr u32 kRest = kBlockBytes - kSplit, kGroups = kBlockElements / 32;
  u32 b = lane() % 8 * kSegmentBlocks * kGroups;
  for (u32 chunk = 0; chunk < kSegmentBlocks / kChunkBlocks; ++chunk) {
    u8 first[kChunkBlocks * kSplit], second[kChunkBlocks * kRest];
    load_parts<kSplit, kUnit0>(row, chunk, first);
    load_parts<kRest, kUnit1>(row + kPlane1, chunk, second);
    DS4_REGISTERS
    for (u32 i = 0; i < kChunkBlocks; ++i) {
      u8 block[kBlockBytes];
      __builtin_memcpy(block, first + i * kSplit, kSplit);
      __builtin_memcpy(block + kSplit, second + i * kRest, kRest);
#pragma unroll
      for (u32 group = 0; group < kGroups; ++group, ++b)
#pragma unroll
        for (u32 c = 0; c < kCount; ++c)
          if (kCount == 1 || c < count) {
            sums[c] = codes_dot(block, group, codes[c] + 32 * b, scales[c][b],
                                sums[c], books...);
            finish(sums[c]);
          }
    }
  }
}

/// The parts of kCount blocks of 32 from `first` on of a segment, from a plane
/// of the row: `first` is a multiple of kCount.
template <u32 kCount, u32 kPart, u32 kUnit>
DS4_DEVICE void load_plane(const u8 *plane, u32 segment, u32 first,
                           u8 (&parts)[kCount * kPart]) {
  constexpr u32 kBytes = kCount * kPart;
  // The largest power of two that divides the parts and a unit: no load
  // crosses from one unit to the next.
  constexpr u32 kLoad = (kBytes | kUnit) & (~(kBytes | kUnit) + 1);
#pragma unroll
  for (u32 i = 0; i < kBytes; i += kLoad) {
    const u32 at = first * kPart + i;
    load_aligned<kLoad>(parts + i, plane + (at / kUnit * 8 + segment) * kUnit +
                                       at % kUnit);
  }
}

/// As in layouts/file.h.
template <u32 kCount>
DS4_DEVICE void load_blocks(const u8 *row, u32 segment, u32 first, u32,
                            u8 (&blocks)[kCount * kBlockBytes]) {
  constexpr u32 kRest = kBlockBytes - kSplit;
  u8 begins[kCount * kSplit], rests[kCount * kRest];
  load_plane<kCount, kSplit, kUnit0>(row, segment, first, begins);
  load_plane<kCount, kRest, kUnit1>(row + kPlane1, segment, first, rests);
#pragma unroll
  for (u32 b = 0; b < kCount; ++b) {
    __builtin_memcpy(blocks + b * kBlockBytes, begins + b * kSplit, kSplit);
    __builtin_memcpy(blocks + b * kBlockBytes + kSplit, rests + b * kRest,
                     kRest);
  }
}
