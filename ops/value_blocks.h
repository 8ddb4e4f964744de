// value_blocks.h - which values a lane does in bodies where 8 lanes share a
// block of values with one scale. Constants: kVectors, kDim, vectors a row and
// values a vector; kBlock, values a scale; kTile, values a block of threads,
// whole kBlocks, counted with every vector rounded up to whole kBlocks. All
// threads of a block take part in every pass, since the lanes of a group meet:
//
//   for (u32 pass = 0; pass < kTile; pass += kPassValues)

constexpr u32 kLaneValues = kBlock / 8;
constexpr u32 kPassValues = kThreads * kLaneValues;
constexpr u32 kPaddedDim = (kDim + kBlock - 1) / kBlock * kBlock;

/// Consecutive values of a vector, first .. first + kLaneValues - 1; those from
/// kDim on do not exist.
struct LaneValues {
  u32 vector, first;
};

/// What the calling lane does in a pass; nothing past the tile and the row.
DS4_DEVICE LaneValues lane_values(u32 block, u32 pass) {
  const u32 at = pass + thread_x() * kLaneValues;
  const u32 n = block * kTile + at;
  const u32 vector = n / kPaddedDim;
  const bool live = at < kTile && vector < kVectors;
  return {vector, live ? n % kPaddedDim : kPaddedDim};
}
