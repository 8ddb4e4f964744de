// AttentionKernels.cpp - entries of the kernel table: rotary embedding, caches,
// compressor, indexer and attention.
#include "codegen/KernelEntries.h"
#include "codegen/Target.h"
#include "ir/Launch.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;

namespace ds4::codegen {

using namespace ir;

/// LDS of a block on every target: 64 KB.
static constexpr int64_t kLdsBytes = 65536;

static int64_t width(Value x) { return activationShape(x.getType()).back(); }

/// Constants of a cache, with a prefix: kRows, kRowBytes, kStorage.
static void describeState(KernelSpec &spec, StateType state) {
  spec.constant("kRows", state.getRows())
      .constant("kRowBytes", state.getRowBytes())
      .constant("kStorage", static_cast<int64_t>(state.getStorage()));
}

/// Launch of the bodies where 8 lanes share a block of values
/// (ops/value_blocks.h): simulate, round_row, append.
static void launchValueBlocks(KernelSpec &spec, int64_t vectors, int64_t size,
                              bool fp4) {
  const int64_t blockValues = fp4 ? 32 : 64;
  const int64_t blocks = vectors * llvm::divideCeil(size, blockValues);
  spec.block = threadsFor(spec, blocks * 8, 8);
  int64_t tile = spec.block / 8 * blockValues;
  if (spec.placement.tile)
    tile = llvm::alignTo(spec.placement.tile, blockValues);
  spec.gridX =
      static_cast<uint32_t>(llvm::divideCeil(blocks * blockValues, tile));
  if (size % blockValues == 0) {
    spec.tile = tile;
    spec.local = true;
  }
  spec.constant("kTile", tile);
}

static LogicalResult describeHadamard(HadamardOp op, KernelSpec &spec) {
  const int64_t n = width(op.getX()), vectors = rowElements(op.getX()) / n;
  if (n > 4096)
    return op.emitOpError() << "transforms vectors of " << n
                            << " values; the kernel keeps at most 4096 in LDS";
  const unsigned bits = llvm::Log2_64(n);
  const int64_t group = int64_t(1) << (bits + 1) / 2, stride = n / group;
  spec.block = threadsFor(spec, 32, 1);
  // A lane a vector's stride; in the tail of a launch the whole block.
  const int64_t lanes =
      isForGpu(op) && 4 * n * spec.block / stride <= 24576 ? spec.block : 32;
  int64_t blockVectors = std::clamp<int64_t>(lanes / stride, 1, vectors);
  if (spec.placement.tile)
    blockVectors =
        std::clamp<int64_t>(spec.placement.tile / n, 1, blockVectors);
  spec.gridX = static_cast<uint32_t>(llvm::divideCeil(vectors, blockVectors));
  spec.tile = blockVectors * n;
  spec.local = true;
  spec.constant("kVectors", vectors)
      .constant("kDim", n)
      .constant("kGroup", group)
      .constant("kStride", stride)
      .constant("kBlockVectors", blockVectors)
      .constantF("kFactor", static_cast<float>(1.0 / std::sqrt(double(n))));
  spec.args = {op.getX(), op.getResult()};
  return success();
}

/// Constants and arguments of both kernels of ds4.index_score, which `blocks`
/// blocks do in turns.
static void describeScores(KernelSpec &spec, IndexScoreOp op, int64_t blocks) {
  spec.gridX = static_cast<uint32_t>(blocks);
  spec.constant("kHeads", dim(op.getQ(), 1))
      .constant("kDim", dim(op.getQ(), 2));
  describeState(spec, op.getKeys().getType());
  spec.constant("kWindow", op.getRatio())
      .constant("kTopK", op.getTopK())
      .constantF("kScale", op.getScale().convertToFloat())
      .constant("kBlocks", blocks);
  spec.args = {op.getQ(), op.getWeights(), op.getKeys(), op.getResult()};
}

/// Heads spread over the waves of a block (ops/index_tiles.hip).
static bool spreadHeads(IndexScoreOp op, KernelSpec &spec) {
  constexpr int64_t kThreads = 256, kTile = 32, kMostBytes = 40960;
  const StateType keys = op.getKeys().getType();
  const int64_t width = keys.getWidth();
  constexpr int64_t kPassHeads = 32;
  const int64_t heads = dim(op.getQ(), 1);
  const int64_t ldsBytes =
      4 * (kTile * (width + 4 + kPassHeads) + kPassHeads * width + heads);
  if (!isForGpu(op) || width % 32 != 0 || ldsBytes > kMostBytes ||
      (spec.placement.threads && spec.placement.threads != kThreads))
    return false;
  spec.kernel = "index_tiles";
  spec.block = spec.mostThreads = kThreads;
  describeScores(
      spec, op,
      std::min<int64_t>(llvm::divideCeil(keys.getRows(), kTile), 256));
  return true;
}

/// Rectangles of heads by rows (ops/index_prompt.hip), for long steps on a GPU;
/// false: the shape is not made for it.
static bool scoreRectangles(IndexScoreOp op, KernelSpec &spec) {
  constexpr int64_t kThreads = 256, kTile = 32, kLongStep = 16;
  const StateType keys = op.getKeys().getType();
  const int64_t heads = dim(op.getQ(), 1), width = keys.getWidth();
  if (!isForGpu(op) || spec.gridY < kLongStep || width % 32 != 0 ||
      heads % 8 != 0 ||
      (spec.placement.threads && spec.placement.threads != kThreads))
    return false;
  const Target *target = findTarget(targetOf(op));
  assert(target && "a profile names the GPU");
  // Memory of the kernel.
  const int64_t bytes =
      4 * (heads * (width + 28) + kTile * (width + 28) + heads * kTile);
  if (bytes > static_cast<int64_t>(target->sharedBytes))
    return false;
  spec.kernel = "index_prompt";
  spec.block = spec.mostThreads = kThreads;
  spec.sharedBytes = static_cast<uint32_t>(bytes);
  // A block loads the queries once: few blocks, if there are tokens enough.
  const int64_t blocks = std::max<int64_t>(2, 2048 / spec.gridY);
  describeScores(
      spec, op,
      std::min<int64_t>(llvm::divideCeil(keys.getRows(), kTile), blocks));
  spec.constant("kRectangleHeads", heads % 32 == 0   ? 32
                                   : heads % 16 == 0 ? 16
                                                     : 8)
      .constant("kSharedBytes", spec.sharedBytes);
  return true;
}

static LogicalResult describeIndexScore(IndexScoreOp op, KernelSpec &spec) {
  if (scoreRectangles(op, spec) || spreadHeads(op, spec))
    return success();
  const StateType keys = op.getKeys().getType();
  // A thread keeps its decoded key in LDS.
  const int64_t keyBytes = (keys.getWidth() | 1) * 4;
  spec.mostThreads = 64 * keyBytes <= kLdsBytes ? 64 : 32;
  spec.block = threadsFor(spec, spec.mostThreads, spec.mostThreads / 32);
  if (spec.block * keyBytes > kLdsBytes)
    return op.emitOpError() << "has keys of " << keys.getWidth()
                            << " values; 32 of them do not fit into LDS";
  // Enough blocks to fill a device; each does several rows of a long cache.
  describeScores(
      spec, op,
      std::min<int64_t>(llvm::divideCeil(keys.getRows(), spec.block), 128));
  return success();
}

/// The list of rows that a query sees, for both ways of cutting attention.
static void describeList(KernelSpec &spec, AttendOp op) {
  const StateType ring = op.getRing().getType();
  const auto compressed =
      op.getCompressed() ? cast<StateType>(op.getCompressed().getType()) : ring;
  spec.constant("kHeads", dim(op.getQ(), 1))
      .constant("kDim", dim(op.getQ(), 2))
      .constant("kWindow", op.getWindow())
      .constant("kRingRows", ring.getRows())
      .constant("kRingBytes", ring.getRowBytes())
      .constant("kRingStorage", static_cast<int64_t>(ring.getStorage()))
      .constant("kCompressed", op.getCompressed() ? op.getRatio() : 0)
      .constant("kRowBytes", compressed.getRowBytes())
      .constant("kStorage", static_cast<int64_t>(compressed.getStorage()))
      .constant("kSelected", op.getSelected() ? dim(op.getSelected(), 1) : 0)
      .constantF("kScale", op.getScale().convertToFloat());
}

/// The most tiles of compressed rows that a query sees.
static int64_t listTiles(AttendOp op) {
  constexpr int64_t kTile = 32;
  int64_t listed = 0;
  if (op.getCompressed())
    listed = cast<StateType>(op.getCompressed().getType()).getRows();
  if (op.getSelected())
    listed = std::min(listed, dim(op.getSelected(), 1));
  return static_cast<int64_t>(llvm::divideCeil(listed, kTile));
}

/// Tiles in blocks of their own (ops/attend_tiles.hip), for steps of few tokens
/// on a GPU; false: the shape is not made for it.
static bool spreadTiles(AttendOp op, KernelSpec &spec) {
  constexpr int64_t kTile = 32, kMostTokens = 16, kMostTiles = 256;
  const int64_t heads = dim(op.getQ(), 1), size = dim(op.getQ(), 2);
  const int64_t panels = size > 256 ? 2 : 1;
  const int64_t window = static_cast<int64_t>(op.getWindow());
  const int64_t tiles = (window + kTile - 2) / kTile + 1 + listTiles(op);
  // More heads a block share what is decoded, if there are blocks enough.
  constexpr int64_t kManyBlocks = 264;
  const bool many = tiles * heads / 4 * spec.gridY > kManyBlocks;
  const int64_t blockHeads = many && heads % 8 == 0 ? 8 : 4;
  if (!isForGpu(op) || spec.gridY >= kMostTokens || heads % blockHeads != 0 ||
      size % 64 != 0 || size > 512 || tiles > kMostTiles)
    return false;
  spec.kernel = "attend_merge";
  spec.block = 256;
  spec.gridX = static_cast<uint32_t>(heads);
  spec.tile = size;
  spec.apart = true;
  spec.scratchBytes = spec.gridY * tiles * heads * (size + 2) * sizeof(float);
  describeList(spec, op);
  spec.constant("kBlockHeads", blockHeads)
      .constant("kListTiles", listTiles(op))
      .constant("kPanels", panels);
  spec.spread = std::make_shared<KernelSpec>(spec);
  spec.spread->kernel = "attend_tiles";
  spec.spread->gridX = static_cast<uint32_t>(heads / blockHeads * tiles);
  spec.spread->args = {op.getQ(), op.getKv(), op.getRing(), op.getCompressed(),
                       op.getSelected()};
  spec.args = {op.getSinks(), op.getResult()};
  return true;
}

namespace {

/// A cut of attention for ops/attend_prompt.hip.
struct PromptCut {
  int64_t heads;  ///< a block
  int64_t tiles;  ///< at a time
  int64_t panels; ///< of a tile, in LDS one at a time

  int64_t threads() const { return 256 * tiles; }
  /// LDS of a block (Memory).
  int64_t bytes(int64_t size) const {
    constexpr int64_t kTile = 32;
    const int64_t tile = kTile * (size / panels + 28) + heads * (kTile + 4) +
                         kTile * (heads + 4) + 2 * heads;
    return 4 * (tiles * tile + heads * (size + 28) + 2 * heads);
  }
  /// Whether threads have whole rectangles of both products.
  bool divides(int64_t size) const {
    const int64_t values = heads * size / panels / 4;
    return size % (32 * panels) == 0 && values % threads() == 0 &&
           heads % (2 * values / threads()) == 0;
  }
};

} // namespace

/// All heads of a block from the same decoded rows (ops/attend_prompt.hip), for
/// long steps on a GPU; false: the shape is not made for it.
static bool shareRows(AttendOp op, KernelSpec &spec) {
  const int64_t heads = dim(op.getQ(), 1), size = dim(op.getQ(), 2);
  if (!isForGpu(op))
    return false;
  const Target *target = findTarget(targetOf(op));
  assert(target && "a profile names the GPU");
  // The more heads share a row the better; two tiles at a time need half as
  // many barriers.
  constexpr PromptCut kCuts[] = {{32, 2, 1}, {32, 1, 1}, {16, 1, 1}, {16, 1, 2},
                                 {16, 1, 4}, {8, 1, 1},  {8, 1, 2},  {8, 1, 4}};
  const auto *cut = llvm::find_if(kCuts, [&](const PromptCut &cut) {
    return heads % cut.heads == 0 && cut.divides(size) &&
           cut.bytes(size) <= static_cast<int64_t>(target->sharedBytes);
  });
  if (cut == std::end(kCuts))
    return false;
  spec.kernel = "attend_prompt";
  spec.block = spec.mostThreads = static_cast<uint32_t>(cut->threads());
  spec.gridX = static_cast<uint32_t>(heads / cut->heads);
  spec.tile = cut->heads * size;
  spec.sharedBytes = static_cast<uint32_t>(cut->bytes(size));
  describeList(spec, op);
  spec.constant("kBlockHeads", cut->heads)
      .constant("kTileGroup", cut->tiles)
      .constant("kListTiles", listTiles(op))
      .constant("kPanels", cut->panels)
      .constant("kSharedBytes", spec.sharedBytes);
  spec.args = {op.getQ(),     op.getKv(),         op.getRing(),
               op.getSinks(), op.getCompressed(), op.getSelected(),
               op.getResult()};
  return true;
}

static LogicalResult describeAttend(AttendOp op, KernelSpec &spec) {
  if (spreadTiles(op, spec) || shareRows(op, spec))
    return success();
  const int64_t heads = dim(op.getQ(), 1), size = dim(op.getQ(), 2);
  // Two heads a wave share what is read of a tile; waves share its decoding.
  const int64_t waveHeads = heads % 2 == 0 ? 2 : 1;
  int64_t waves = 8;
  while (heads / waveHeads % waves != 0)
    --waves;
  // A tile of 32 rows must fit into LDS beside scores and exponentials.
  const int64_t scoreBytes = 2 * 4 * 32 * waveHeads * waves;
  int64_t panels = 1;
  const auto panelBytes = [&] {
    return 4 * 32 * (static_cast<int64_t>(llvm::divideCeil(size, panels)) | 1);
  };
  while (panels < 8 && panelBytes() + scoreBytes > kLdsBytes)
    panels *= 2;
  if (panelBytes() + scoreBytes > kLdsBytes)
    return op.emitOpError() << "has heads of " << size
                            << " values; an eighth of 32 rows does not fit "
                               "into LDS";
  spec.block = static_cast<uint32_t>(32 * waves);
  spec.gridX = static_cast<uint32_t>(heads / (waveHeads * waves));
  spec.tile = waveHeads * waves * size;

  describeList(spec, op);
  spec.constant("kWaveHeads", waveHeads)
      .constant("kBlockHeads", waveHeads * waves)
      .constant("kLoadRows",
                isForGpu(op) ? std::min<int64_t>(8, 32 / waves) : 1)
      .constant("kPanels", panels);
  spec.args = {op.getQ(),     op.getKv(),         op.getRing(),
               op.getSinks(), op.getCompressed(), op.getSelected(),
               op.getResult()};
  return success();
}

void addAttentionKernels(KernelTable &kernels) {
  kernels.add<HadamardOp>(describeHadamard);
  kernels.add<IndexScoreOp>(describeIndexScore);
  kernels.add<AttendOp>(describeAttend);

  kernels.add<RopeOp>([](RopeOp op, KernelSpec &spec) {
    spec.constant("kVectors", rowElements(op.getX()) / width(op.getX()))
        .constant("kDim", width(op.getX()))
        .constant("kRotated", dim(op.getTable(), 1))
        .constant("kInverse", op.getInverse() ? 1 : 0);
    // Two pairs at once, where they are at multiples of 16 bytes.
    const int64_t values =
        width(op.getX()) % 4 == 0 && dim(op.getTable(), 1) % 4 == 0 ? 4 : 1;
    spec.constant("kItem", values);
    launchElements(spec, rowElements(op.getX()) / values,
                   /*perThread=*/4 / values, /*waves=*/8, values);
    // Pairs are of one tile, since those are even.
    spec.local = spec.tile % 2 == 0;
    spec.args = {op.getX(), op.getTable(), op.getResult()};
    return success();
  });

  kernels.add<SimulateOp>([](SimulateOp op, KernelSpec &spec) {
    const int64_t size = width(op.getX());
    const int64_t vectors = rowElements(op.getX()) / size;
    const bool fp4 = op.getMode() == SimulateMode::fp4;
    spec.constant("kVectors", vectors)
        .constant("kDim", size)
        .constant("kWidth", op.getWidth())
        .constant("kFp4Mode", fp4);
    launchValueBlocks(spec, vectors, size, fp4);
    spec.args = {op.getX(), op.getResult()};
    return success();
  });

  kernels.add<RoundRowOp>([](RoundRowOp op, KernelSpec &spec) {
    spec.constant("kVectors", 1)
        .constant("kDim", width(op.getX()))
        .constant("kStorage", static_cast<int64_t>(op.getStorage()));
    launchValueBlocks(spec, 1, width(op.getX()),
                      op.getStorage() == RowStorage::fp4);
    spec.args = {op.getX(), op.getResult()};
    return success();
  });

  kernels.add<AppendOp>([](AppendOp op, KernelSpec &spec) {
    const StateType state = op.getState().getType();
    spec.constant("kVectors", 1).constant("kDim", width(op.getX()));
    describeState(spec, state);
    launchValueBlocks(spec, 1, width(op.getX()),
                      state.getStorage() == RowStorage::fp4);
    spec.args = {op.getX(), op.getState()};
    return success();
  });

  kernels.add<CompressOp>([](CompressOp op, KernelSpec &spec) {
    spec.constant("kDim", width(op.getResult()))
        .constant("kOverlap", op.getOverlap() ? 1 : 0)
        .constant("kKvRows", op.getKvRing().getType().getRows())
        .constant("kGateRows", op.getGateRing().getType().getRows());
    // A channel is a long loop over the tokens: one a thread, small blocks.
    launchElements(spec, width(op.getResult()), /*perThread=*/1, /*waves=*/2);
    spec.args = {op.getKv(), op.getGate(), op.getKvRing(), op.getGateRing(),
                 op.getResult()};
    return success();
  });

  kernels.add<TopKOp>([](TopKOp op, KernelSpec &spec) {
    const int64_t rows = dim(op.getScores(), 1);
    spec.block = threadsFor(spec, rows > 1024 ? 256 : 32, 8);
    const bool scan = isForGpu(op) && spec.block == 256 && rows < 65536;
    const int64_t kept = llvm::divideCeil(rows, 256);
    spec.constant("kRows", rows)
        .constant("kTopK", op.getK())
        .constant("kWindow", op.getRatio())
        .constant("kScan", scan)
        .constant("kKept", scan && kept <= 64 ? kept : 0);
    spec.args = {op.getScores(), op.getResult()};
    spec.reportsNan = true;
    return success();
  });
}

} // namespace ds4::codegen
