// RoutingKernels.cpp - entries of the kernel table: expert choice and argmax.
#include "codegen/KernelEntries.h"
#include "ir/Launch.h"

using namespace mlir;

namespace ds4::codegen {

using namespace ir;

/// On a GPU, where the op is a launch of its own, slices of a long row are
/// done by blocks of their own (ops/argmax_tiles.hip).
static bool spreadSlices(ArgmaxOp op, KernelSpec &spec) {
  constexpr int64_t kBlocks = 64, kBestBytes = 8;
  const int64_t vocab = dim(op.getLogits(), 1);
  if (!isForGpu(op) || isa<LaunchOp>(op->getParentOp()) || spec.block != 256 ||
      vocab < 16 * kBlocks)
    return false;
  spec.kernel = "argmax_merge";
  spec.scratchBytes = spec.gridY * kBlocks * kBestBytes;
  spec.constant("kBlocks", kBlocks).constant("kVocab", vocab);
  spec.spread = std::make_shared<KernelSpec>(spec);
  spec.spread->kernel = "argmax_tiles";
  spec.spread->gridX = kBlocks;
  spec.spread->args = {op.getLogits()};
  spec.args = {op.getResult()};
  spec.reportsNan = false;
  return true;
}

void addRoutingKernels(KernelTable &kernels) {
  kernels.add<RouteOp>([](RouteOp op, KernelSpec &spec) {
    const int64_t experts = dim(op.getLogits(), 1);
    spec.block = threadsFor(spec, experts, 8);
    spec.constant("kExperts", experts)
        .constant("kUsed", dim(op.getExperts(), 1))
        .constantF("kScale", op.getScale().convertToFloat());
    spec.args = {op.getLogits(), op.getBias(), op.getExperts(),
                 op.getWeights()};
    spec.reportsNan = true;
    return success();
  });

  kernels.add<HashRouteOp>([](HashRouteOp op, KernelSpec &spec) {
    spec.block = threadsFor(spec, 32, 1);
    spec.constant("kExperts", dim(op.getLogits(), 1))
        .constant("kUsed", dim(op.getExperts(), 1))
        .constant("kListed", op.getTable().getType().getRowElements())
        .constantF("kScale", op.getScale().convertToFloat());
    spec.args = {op.getLogits(), op.getTokens(), op.getTable(), op.getExperts(),
                 op.getWeights()};
    spec.reportsNan = true;
    return success();
  });

  kernels.add<GroupPairsOp>([](GroupPairsOp op, KernelSpec &spec) {
    const auto experts = static_cast<int64_t>(op.getCount());
    // A wave a run of the pairs: on the host few, since their lanes meet after
    // every 32 pairs; on GPUs as many as LDS has counts for.
    constexpr int64_t kMostCounts = 8192;
    const int64_t pairs = spec.gridY * dim(op.getExperts(), 1);
    spec.block = threadsFor(
        spec, pairs,
        isForGpu(op) ? std::clamp<int64_t>(kMostCounts / experts, 1, 32) : 2);
    spec.columns = spec.gridY; // one block does the step
    spec.constant("kExperts", experts)
        .constant("kUsed", dim(op.getExperts(), 1));
    spec.args = {op.getExperts(), op.getResult()};
    return success();
  });

  kernels.add<ArgmaxOp>([](ArgmaxOp op, KernelSpec &spec) {
    spec.block = threadsFor(spec, dim(op.getLogits(), 1), 8);
    spec.reportsNan = true;
    if (spreadSlices(op, spec))
      return success();
    spec.constant("kVocab", dim(op.getLogits(), 1));
    spec.args = {op.getLogits(), op.getResult()};
    return success();
  });
}

} // namespace ds4::codegen
