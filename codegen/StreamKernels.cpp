// StreamKernels.cpp - entries of the kernel table: residual streams, norms and
// the rows that need logits.
#include "codegen/KernelEntries.h"
#include "ir/Launch.h"

using namespace mlir;

namespace ds4::codegen {

using namespace ir;

/// What the two kernels of ops/streams.h have in common.
static void describeStreams(KernelSpec &spec, Value streams, WeightType fn,
                            float eps, float hcEps) {
  spec.format = fn.getFormat();
  // Lanes are dear on the host: a short row gets fewer waves.
  spec.block = threadsFor(spec, fn.getRowElements() / 16, 8);
  spec.constant("kStreams", dim(streams, 1))
      .constant("kHidden", dim(streams, 2))
      .constant("kMixes", fn.getShape().front())
      .constantF("kEps", eps)
      .constantF("kHcEps", hcEps);
}

/// On a GPU, where the op begins a launch, a block does each of the dot
/// products (ops/hc_mix.hip), and comb is made aside. False: it is not cut so.
static bool spreadMixes(HcPreOp op, KernelSpec &spec) {
  constexpr uint32_t kThreads = 256; // of ops/hc_mix.hip
  const int64_t streams = dim(op.getStreams(), 1);
  const int64_t flat = op.getFn().getType().getRowElements();
  Operation *const maker = op.getStreams().getDefiningOp();
  const bool isFirst = !isa<LaunchOp>(op->getParentOp()) || !maker ||
                       maker->getBlock() != op->getBlock();
  // A thread keeps its elements in registers.
  if (!isForGpu(op) || !isFirst || spec.block != kThreads ||
      streams * streams > 32 || flat % kThreads != 0 || flat > 64 * kThreads)
    return false;
  const int64_t members = streams * std::max<int64_t>(2, streams) + 1;
  spec.kernel = "hc_spread";
  spec.gridX = 2;
  spec.asides = 1;
  spec.tile = dim(op.getX(), 1);
  spec.scratchBytes = spec.gridY * 2 * members * sizeof(float);
  spec.constant("kMembers", members);
  spec.spread = std::make_shared<KernelSpec>(spec);
  spec.spread->kernel = "hc_mix";
  spec.spread->waits = true;
  spec.spread->gridX = static_cast<uint32_t>(2 * members);
  spec.spread->args = {op.getStreams(), op.getFn()};
  spec.args = {op.getStreams(), op.getScale(), op.getBase(),
               op.getX(),       op.getPost(),  op.getComb()};
  return true;
}

void addStreamKernels(KernelTable &kernels) {
  kernels.add<HcPreOp>([](HcPreOp op, KernelSpec &spec) {
    describeStreams(spec, op.getStreams(), op.getFn().getType(),
                    op.getEps().convertToFloat(),
                    op.getHcEps().convertToFloat());
    spec.constant("kIterations", op.getIterations());
    if (spreadMixes(op, spec))
      return success();
    const int64_t streams = dim(op.getStreams(), 1);
    spec.constant("kByLanes",
                  isForGpu(op) && streams * streams <= 32 && spec.block > 32);
    spec.args = {op.getStreams(), op.getFn(),   op.getScale(), op.getBase(),
                 op.getX(),       op.getPost(), op.getComb()};
    return success();
  });

  kernels.add<HeadCollapseOp>([](HeadCollapseOp op, KernelSpec &spec) {
    describeStreams(spec, op.getStreams(), op.getFn().getType(),
                    op.getEps().convertToFloat(),
                    op.getHcEps().convertToFloat());
    spec.args = {op.getStreams(), op.getFn(), op.getScale(), op.getBase(),
                 op.getResult()};
    return success();
  });

  kernels.add<HcPostOp>([](HcPostOp op, KernelSpec &spec) {
    spec.constant("kStreams", dim(op.getStreams(), 1))
        .constant("kHidden", dim(op.getStreams(), 2));
    launchElements(spec, dim(op.getStreams(), 2), isForGpu(op) ? 1 : 4);
    spec.args = {op.getY(), op.getStreams(), op.getPost(), op.getComb(),
                 op.getResult()};
    return success();
  });

  kernels.add<RmsNormOp>([](RmsNormOp op, KernelSpec &spec) {
    const int64_t width = activationShape(op.getX().getType()).back();
    const int64_t vectors = rowElements(op.getX()) / width;
    spec.block = threadsFor(spec, width >= 2048 ? 256 : 32, 8);
    spec.gridX = static_cast<uint32_t>(vectors);
    spec.tile = width;
    spec.local = true;
    spec.constant("kVectors", vectors)
        .constant("kDim", width)
        .constant("kHasWeight", op.getWeight() ? 1 : 0)
        .constant("kKept", isForGpu(op) && spec.block == 256 && width <= 8192)
        .constantF("kEps", op.getEps().convertToFloat());
    spec.args = {op.getX(), op.getWeight(), op.getResult()};
    return success();
  });

  kernels.add<TakeOutputsOp>([](TakeOutputsOp op, KernelSpec &spec) {
    spec.constant("kElements", rowElements(op.getX()));
    launchElements(spec, rowElements(op.getX()));
    spec.args = {op.getX(), op.getResult()};
    return success();
  });
}

} // namespace ds4::codegen
