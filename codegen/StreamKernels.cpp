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
/// products and leaves it in the result.
static void spreadMixes(HcPreOp op, KernelSpec &spec) {
  constexpr uint32_t kThreads = 256; // of ops/hc_mix.hip
  const int64_t mixes = op.getFn().getType().getShape().front();
  Operation *const streams = op.getStreams().getDefiningOp();
  const bool isFirst = !isa<LaunchOp>(op->getParentOp()) || !streams ||
                       streams->getBlock() != op->getBlock();
  const int64_t flat = op.getFn().getType().getRowElements();
  // A thread keeps its elements in registers.
  const bool spread = isForGpu(op) && isFirst && spec.block == kThreads &&
                      mixes < dim(op.getX(), 1) && flat % kThreads == 0 &&
                      flat <= 64 * kThreads;
  spec.constant("kSpread", spread);
  if (!spread)
    return;
  spec.spread = std::make_shared<KernelSpec>(spec);
  spec.spread->kernel = "hc_mix";
  spec.spread->waits = true;
  spec.spread->gridX = static_cast<uint32_t>(mixes + 1);
  spec.spread->args = {op.getStreams(), op.getFn(), op.getX()};
}

void addStreamKernels(KernelTable &kernels) {
  kernels.add<HcPreOp>([](HcPreOp op, KernelSpec &spec) {
    describeStreams(spec, op.getStreams(), op.getFn().getType(),
                    op.getEps().convertToFloat(),
                    op.getHcEps().convertToFloat());
    const int64_t streams = dim(op.getStreams(), 1);
    spec.constant("kIterations", op.getIterations())
        .constant("kByLanes",
                  isForGpu(op) && streams * streams <= 32 && spec.block > 32);
    spec.args = {op.getStreams(), op.getFn(),   op.getScale(), op.getBase(),
                 op.getX(),       op.getPost(), op.getComb()};
    spreadMixes(op, spec);
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
