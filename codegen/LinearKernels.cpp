// LinearKernels.cpp - entries of the kernel table: embedding, quantisation,
// linears and expert products.
#include "codegen/KernelEntries.h"
#include "codegen/Target.h"
#include "ir/Launch.h"

using namespace mlir;

namespace ds4::codegen {

using namespace ir;

/// LDS of a vector whose codes and scales are padded
/// (ops/layouts/row_parts.h), and how many vectors a block has there.
static int64_t vectorBytes(WeightType weight) {
  const auto elements = static_cast<int64_t>(weight.getRowElements());
  return elements / 8 * 9 + 512;
}
static int64_t stagedColumns(const KernelSpec &spec, WeightType weight) {
  constexpr int64_t kMostBytes = 49152;
  return std::clamp<int64_t>(kMostBytes / vectorBytes(weight), 1, spec.columns);
}

/// Layout of a weight that is multiplied, and its constants (ops/layouts/).
static void describeLayout(KernelSpec &spec, WeightType weight) {
  spec.layout = weight.getLayout();
  if (*spec.layout != WeightLayout::lanes)
    return;
  const LaneRow row = *LaneRow::of(weight.getFormat(), weight.getRowElements());
  spec.constant("kSegmentBlocks", row.segmentBlocks)
      .constant("kChunkBlocks", row.chunkBlocks)
      .constant("kSplit", row.planes[0].partBytes)
      .constant("kUnit0", row.planes[0].unit)
      .constant("kUnit1", row.planes[1].unit)
      .constant("kPlane1", row.planes[1].begin)
      .constant("kStagedColumns", stagedColumns(spec, weight));
}

/// Blocks of 256 threads that products of rows by parts leave registers for
/// (ops/layouts/row_parts.h): what a lane keeps of the vector grows with its
/// length.
static uint32_t residentBlocks(const KernelSpec &spec, WeightType weight,
                               int64_t laneRows) {
  const uint64_t elements = weight.getRowElements();
  if (spec.columns > 1 || elements >= 8192)
    return 2;
  return elements <= 2048 ? 4 : laneRows > 1 ? 3 : 5;
}

/// Whether the waves of a block all do rows of one matrix of `out` rows and the
/// same vectors, so that they can share those, and meet.
static bool shareVectors(const KernelSpec &spec, Operation *op, int64_t out) {
  const uint32_t waves =
      spec.placement.threads ? spec.placement.threads / 32 : 8;
  return isForGpu(op) &&
         (spec.columns == 1 || rowCapacity(op) <= kMostColumns) &&
         out % waves == 0 && waves <= 8;
}

/// Whether segments have four whole parts (ops/layouts/row_parts.h).
static bool haveParts(WeightType weight) {
  return weight.getLayout() == WeightLayout::lanes &&
         LaneRow::of(weight.getFormat(), weight.getRowElements())
                     ->segmentBlocks %
                 4 ==
             0;
}

/// Whether rows go through LDS on their way to f32 products: those of codes,
/// which would be loaded byte by byte.
static bool stageRows(WeightType weight) {
  constexpr uint64_t kMostBytes = 4096; // of 8 rows: 32 KB of LDS
  return weightFormatInfo(weight.getFormat()).quantised &&
         weight.getLayout() == WeightLayout::file &&
         weight.getDeviceRowBytes() % 16 == 0 &&
         weight.getDeviceRowBytes() <= kMostBytes;
}

/// Whether a block of eight waves does f32 products of whole rows
/// (ops/spread_rows.h): of floats, or where several columns share what is
/// decoded.
static bool spreadRows(const KernelSpec &spec, Operation *op, WeightType weight,
                       int64_t out) {
  return isa<LinearOp, GroupedLinearOp>(op) && shareVectors(spec, op, out) &&
         (spec.columns > 1 ||
          !weightFormatInfo(weight.getFormat()).quantised) &&
         (spec.placement.threads == 0 || spec.placement.threads == 256) &&
         weight.getRowElements() % 256 == 0;
}

/// Grid and constants of ops/products.h: `matrices` matrices of `out` rows a
/// row of the domain. Waves do not depend on one another. On the host, where
/// lanes meet at a price, a lane does 8 rows, and a block has two waves, so
/// that even a small matrix is spread; a GPU needs as many waves as there are.
static void launchProducts(KernelSpec &spec, Operation *op, Value x,
                           WeightType weight, int64_t out, int64_t matrices) {
  const bool int8 = isa<Q8Type>(x.getType());
  const bool gpu = isForGpu(op);
  int64_t laneRows = gpu ? 1 : 8, rowLanes = int8 ? 8 : 32;
  const bool shares = shareVectors(spec, op, out);
  const bool parts = shares && int8 && haveParts(weight);
  const bool spread = !int8 && spreadRows(spec, op, weight, out);
  const bool staged =
      shares && !int8 && !spread && spec.columns == 1 && stageRows(weight);
  // A long step has rows enough for several a lane; experts' decoders with
  // learned books leave no registers for them.
  if (gpu && !int8 && spec.columns > 1 && rowCapacity(op) > kMostColumns &&
      isa<LinearOp, GroupedLinearOp>(op))
    laneRows = 4;
  // Which expert's rows they are, others must know first.
  spec.waits =
      (staged || parts || spread) && isa<LinearOp, GroupedLinearOp>(op);
  if (parts) {
    rowLanes = 32;
    // Enough waves for every multiprocessor; then rather longer ones.
    constexpr int64_t kWaves = 2048;
    // Several columns leave no registers for a second row of this length.
    constexpr int64_t kLongRow = 8192;
    const bool lone = spec.columns > 1 && weight.getRowElements() >= kLongRow;
    while (laneRows < 8 && !lone && matrices * out / (2 * laneRows) >= kWaves &&
           out % (16 * laneRows) == 0)
      laneRows *= 2;
  }
  if (spread) {
    rowLanes = 256;
    // Likewise, as far as there are blocks enough.
    constexpr int64_t kBlocks = 128;
    while (laneRows < 4 && matrices * out / (2 * laneRows) >= kBlocks)
      laneRows *= 2;
  }
  const int64_t waveRows = std::max<int64_t>(32 / rowLanes, 1) * laneRows;
  const int64_t lanes = matrices * ((out + waveRows - 1) / waveRows) *
                        std::max<int64_t>(rowLanes, 32);
  spec.format = weight.getFormat();
  spec.block = spread ? 256 : threadsFor(spec, lanes, gpu ? 8 : 2);
  spec.gridX = static_cast<uint32_t>((lanes + spec.block - 1) / spec.block);
  // Rows of a matrix that are no whole number of waves leave gaps; which pairs
  // of several tokens experts do depends on the tokens.
  if (out % waveRows == 0 &&
      (spec.columns == 1 || isa<LinearOp, GroupedLinearOp>(op)))
    spec.tile = spec.block / std::max<int64_t>(rowLanes, 32) * waveRows;
  spec.constant("kIn", weight.getRowElements())
      .constant("kOut", out)
      .constant("kRowBytes", weight.getDeviceRowBytes())
      .constant("kInt8", int8)
      .constant("kLaneRows", laneRows)
      .constant("kRowLanes", rowLanes)
      .constant("kStaged", staged)
      .constant("kBookLevels", weight.getBookLevels())
      .constant("kColumns", spec.columns);
  // With f32 activations every lane reads the same blocks: rows as in the file.
  if (int8)
    describeLayout(spec, weight);
  else
    spec.layout = WeightLayout::file;
  if (spread)
    spec.sharedBytes = static_cast<uint32_t>(1024 * laneRows * spec.columns);
  if (parts) {
    spec.sharedBytes = static_cast<uint32_t>(vectorBytes(weight) *
                                             stagedColumns(spec, weight));
    constexpr uint32_t kMostBlocks = 32; // of any size
    spec.resident = std::min(
        residentBlocks(spec, weight, laneRows) * 256 / spec.block, kMostBlocks);
  }
}

/// Whether levels times their scale have 11 bits at most, as binary16 has.
static bool hasScaledLevels(const WeightFormatInfo &format) {
  using enum ScaleKind;
  return format.scaleKind == ue4m3 || format.scaleKind == ue4m3Book ||
         format.scaleKind == ue4m3Sign;
}

/// Grid and constants of ops/tile.h: a block does kTileColumns rows of
/// activations times 64 rows of one of `matrices` matrices.
static void launchTiles(KernelSpec &spec, Operation *op, WeightType weight,
                        int64_t out, int64_t matrices) {
  constexpr int64_t kRows = 64, kGroups = 4, kTileLines = 16;
  constexpr int64_t kVectorTiles = kTileColumns / kTileLines;
  const Target *target = findTarget(targetOf(op));
  assert(target && "tiles are for GPUs, which a profile names");
  const WeightFormatInfo &format = weightFormatInfo(weight.getFormat());
  const bool halves = target->tileValueBytes == 2;
  const bool scaled = hasScaledLevels(format);
  // Blocks of a segment in LDS at a time.
  const int64_t stage = weight.getRowElements() / 256 % 2 == 0 ? 2 : 1;
  // StagedRows, StagedVectors, TilePartials; stages of both in LDS.
  const int64_t buffers = halves ? 2 : 1;
  const int64_t values =
      halves ? stage * 4 * (16 * kRows + 16) : kRows * (32 * stage + 16);
  const int64_t rows =
      values + 4 * kRows * (halves && scaled ? 1 : stage) * format.scaleCount;
  const int64_t vectors = kTileLines * (32 * stage + 16 + 4 * stage);
  const int64_t staged = buffers * kGroups * (rows + kVectorTiles * vectors);
  const int64_t partialTiles = halves ? kVectorTiles : 1;
  const int64_t partials =
      4 * kGroups * kTileLines * partialTiles * (kRows + 8);
  spec.kernel += "_tile";
  spec.format = weight.getFormat();
  spec.block = spec.mostThreads = 32 * kGroups * kVectorTiles;
  spec.gridX = static_cast<uint32_t>(matrices * llvm::divideCeil(out, kRows));
  spec.sharedBytes = static_cast<uint32_t>(std::max(staged, partials) +
                                           (halves ? partials : 0));
  spec.constant("kIn", weight.getRowElements())
      .constant("kOut", out)
      .constant("kRowBytes", weight.getDeviceRowBytes())
      .constant("kInt8", 1)
      .constant("kLaneRows", 1) // layouts/row_parts.h, which tiles do not use
      .constant("kStage", stage)
      .constant("kScaledLevels", scaled)
      .constant("kPartialTiles", partialTiles)
      .constant("kSharedBytes", spec.sharedBytes)
      .constant("kBookLevels", weight.getBookLevels())
      .constant("kColumns", spec.columns);
  describeLayout(spec, weight);
}

/// Grid and constants of ops/linear_strided.hip: a block does kTileColumns rows
/// of activations times 4 * kLaneRows rows of one of `matrices` matrices.
static void launchStrided(KernelSpec &spec, Operation *op, WeightType weight,
                          int64_t out, int64_t matrices) {
  constexpr int64_t kThreads = 256;
  const Target *target = findTarget(targetOf(op));
  assert(target && "tiles are for GPUs, which a profile names");
  int64_t laneRows = 8, stage = 8; // terms in LDS at a time
  while (weight.getRowElements() / 256 % stage != 0)
    stage /= 2;
  auto staged = [&] {
    return 2 * 4 * 8 * stage * (kTileColumns + 4 * laneRows + 4);
  };
  // Two of the sums that wait for each of a lane's products.
  int64_t kept = 2 * 4 * kThreads * 8 * laneRows;
  const bool keeps =
      staged() + kept <= static_cast<int64_t>(target->sharedBytes);
  if (!keeps) { // registers have room for those of fewer rows
    laneRows = 4;
    stage = std::min<int64_t>(stage, 4);
    kept = 4 * kThreads;
  }
  spec.kernel = "linear_strided";
  spec.format = weight.getFormat();
  spec.block = spec.mostThreads = kThreads;
  spec.gridX =
      static_cast<uint32_t>(matrices * llvm::divideCeil(out, 4 * laneRows));
  spec.sharedBytes = static_cast<uint32_t>(staged() + kept);
  spec.constant("kIn", weight.getRowElements())
      .constant("kOut", out)
      .constant("kRowBytes", weight.getDeviceRowBytes())
      .constant("kLaneRows", laneRows)
      .constant("kStage", stage)
      .constant("kKeepShared", keeps)
      .constant("kSharedBytes", spec.sharedBytes)
      .constant("kBookLevels", weight.getBookLevels())
      .constant("kInt8", 0)
      .constant("kColumns", spec.columns);
  spec.layout = WeightLayout::file;
}

/// Grid and constants of `matrices` products of `out` rows each.
static void launchMatrices(KernelSpec &spec, Operation *op, Value x,
                           WeightType weight, int64_t out, int64_t matrices) {
  spec.columns = static_cast<uint32_t>(columnsOf(op));
  if (spec.columns <= kMostColumns)
    launchProducts(spec, op, x, weight, out, matrices);
  else if (isa<Q8Type>(x.getType()))
    launchTiles(spec, op, weight, out, matrices);
  else
    launchStrided(spec, op, weight, out, matrices);
}

/// Grid and constants of an expert product (ops/expert_pairs.h). Tiles of
/// `tiled` matrices of an expert have blocks of their own.
template <typename OpT>
static void launchExperts(KernelSpec &spec, OpT op, Value x, WeightType weight,
                          int64_t tiled) {
  const int64_t used = dim(op.getExperts(), 1), columns = columnsOf(op);
  const bool grouped = op.getPairs() != nullptr;
  const int64_t experts = weight.getShape().front();
  launchMatrices(spec, op, x, weight, weight.getShape()[1],
                 columns > kMostColumns ? experts * tiled
                 : grouped              ? experts
                                        : used * columns);
  spec.constant("kUsed", used).constant("kGrouped", grouped);
  if (grouped) // a wave does its expert's pairs of the whole step
    spec.columns = static_cast<uint32_t>(dim(op.getExperts(), 0));
}

/// A row by a block (ops/linear_rows.hip), for routers of few rows in plain
/// floats and steps of few tokens on a GPU; false: the shape is not made for
/// it.
static bool launchRows(LinearOp op, KernelSpec &spec) {
  constexpr int64_t kThreads = 256, kMostRows = 512, kMostShare = 32;
  const WeightType weight = op.getWeight().getType();
  const int64_t in = weight.getRowElements();
  if (!isForGpu(op) || isa<Q8Type>(op.getX().getType()) || columnsOf(op) > 1 ||
      rowCapacity(op) > kMostColumns || op.getBooks() ||
      weightFormatInfo(weight.getFormat()).quantised ||
      weight.getLayout() != WeightLayout::file || in % kThreads != 0 ||
      in / kThreads > kMostShare || weight.getShape().front() > kMostRows ||
      (spec.placement.threads && spec.placement.threads != kThreads))
    return false;
  spec.kernel = "linear_rows";
  spec.format = weight.getFormat();
  spec.block = spec.mostThreads = kThreads;
  spec.gridX = static_cast<uint32_t>(weight.getShape().front());
  spec.waits = true;
  spec.constant("kIn", in).constant("kOut", weight.getShape().front());
  spec.args = {op.getX(), op.getWeight(), op.getResult()};
  return true;
}

/// Vectors of x, `lanes` threads for each 32 values.
static void launchBlocks(KernelSpec &spec, Value x, int64_t lanes = 1) {
  const int64_t width = activationShape(x.getType()).back();
  const int64_t blocks = rowElements(x) / 32;
  spec.constant("kWidth", width).constant("kVectors", rowElements(x) / width);
  spec.block = threadsFor(spec, blocks * lanes, 8);
  int64_t tile = spec.block / lanes;
  if (spec.placement.tile)
    tile = std::max<int64_t>(spec.placement.tile / 32, 1);
  spec.gridX = static_cast<uint32_t>((blocks + tile - 1) / tile);
  spec.tile = tile * 32;
  spec.constant("kTile", tile);
  spec.local = true;
}

void addLinearKernels(KernelTable &kernels) {
  kernels.add<EmbedOp>([](EmbedOp op, KernelSpec &spec) {
    const WeightType table = op.getTable().getType();
    spec.format = table.getFormat();
    spec.constant("kStreams", dim(op.getResult(), 1))
        .constant("kHidden", table.getRowElements());
    launchElements(spec, table.getRowElements());
    spec.args = {op.getTokens(), op.getTable(), op.getResult()};
    return success();
  });

  kernels.add<RotateOp>([](RotateOp op, KernelSpec &spec) {
    launchBlocks(spec, op.getX());
    spec.args = {op.getX(), op.getExperts(), op.getRotations(), op.getResult()};
    return success();
  });

  kernels.add<QuantizeOp>([](QuantizeOp op, KernelSpec &spec) {
    // Lanes that meet are dear on the host.
    const int64_t lanes = isForGpu(op) && !op.getRotations() ? 8 : 1;
    launchBlocks(spec, op.getX(), lanes);
    spec.constant("kRotate", op.getRotations() ? 1 : 0)
        .constant("kLanes", lanes);
    spec.args = {op.getX(), op.getExperts(), op.getRotations(), op.getResult()};
    return success();
  });

  kernels.add<LinearOp>([](LinearOp op, KernelSpec &spec) {
    if (launchRows(op, spec))
      return success();
    const WeightType weight = op.getWeight().getType();
    launchMatrices(spec, op, op.getX(), weight, weight.getShape().front(), 1);
    spec.constant("kGroups", 1);
    spec.args = {op.getX(), op.getWeight(), op.getBooks(), op.getResult()};
    return success();
  });

  kernels.add<GroupedLinearOp>([](GroupedLinearOp op, KernelSpec &spec) {
    const WeightType weight = op.getWeight().getType();
    const int64_t groups = dim(op.getX(), 1);
    spec.kernel = "linear";
    launchMatrices(spec, op, op.getX(), weight,
                   weight.getShape().front() / groups, groups);
    spec.constant("kGroups", groups);
    spec.args = {op.getX(), op.getWeight(), op.getBooks(), op.getResult()};
    return success();
  });

  kernels.add<ExpertGateUpOp>([](ExpertGateUpOp op, KernelSpec &spec) {
    launchExperts(spec, op, op.getX(), op.getGate().getType(), /*tiled=*/2);
    spec.args = {op.getX(),     op.getExperts(),   op.getGate(),
                 op.getUp(),    op.getGateBooks(), op.getUpBooks(),
                 op.getPairs(), op.getGateOut(),   op.getUpOut()};
    return success();
  });

  kernels.add<ExpertDownOp>([](ExpertDownOp op, KernelSpec &spec) {
    launchExperts(spec, op, op.getH(), op.getWeight().getType(), /*tiled=*/1);
    spec.args = {op.getH(),     op.getExperts(), op.getWeight(),
                 op.getBooks(), op.getPairs(),   op.getResult()};
    return success();
  });
}

} // namespace ds4::codegen
