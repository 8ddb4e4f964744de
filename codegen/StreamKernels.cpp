// StreamKernels.cpp - entries of the kernel table: residual streams, norms and
// the rows that need logits.
#include "codegen/KernelEntries.h"
#include "ir/Launch.h"

using namespace mlir;

namespace ds4::codegen {

using namespace ir;

/// Threads of a block of the kernels that are for GPUs.
static constexpr uint32_t kThreads = 256;

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

/// Whether the launch of `op` may have blocks as large as GPUs' kernels want.
static bool hasRoom(const KernelSpec &spec) {
  return !spec.placement.threads || spec.placement.threads == kThreads;
}

/// The op that makes `value` in the launch of `user`, if it is an OpT.
template <typename OpT> static OpT makerBeside(Value value, Operation *user) {
  auto maker = value.getDefiningOp<OpT>();
  return maker && isa<LaunchOp>(user->getParentOp()) &&
                 maker->getBlock() == user->getBlock()
             ? maker
             : OpT{};
}

/// The norm of what a site makes, if nothing else reads that; and the
/// quantisation of the norm.
struct SiteInput {
  RmsNormOp norm;
  QuantizeOp quantize;

  explicit SiteInput(HcPreOp op) {
    if (!isa<LaunchOp>(op->getParentOp()) || !op.getX().hasOneUse())
      return;
    norm = dyn_cast<RmsNormOp>(*op.getX().user_begin());
    if (norm && (norm->getBlock() != op->getBlock() || !norm.getWeight()))
      norm = nullptr;
    if (!norm)
      return;
    for (Operation *user : norm.getResult().getUsers())
      if (auto it = dyn_cast<QuantizeOp>(user);
          it && !quantize && it->getBlock() == op->getBlock() &&
          !it.getRotations())
        quantize = it;
  }
};

/// In steps of few tokens on a GPU, where the op begins a launch but for the
/// hc_post that makes its streams, a block does each of the dot products
/// (ops/hc_mix.hip), and comb is made aside. False: it is not cut so.
static bool spreadMixes(HcPreOp op, KernelSpec &spec) {
  const int64_t streams = dim(op.getStreams(), 1);
  const int64_t hidden = dim(op.getStreams(), 2), flat = streams * hidden;
  auto post = makerBeside<HcPostOp>(op.getStreams(), op);
  Operation *const maker = op.getStreams().getDefiningOp();
  const bool isFirst = post || !isa<LaunchOp>(op->getParentOp()) || !maker ||
                       maker->getBlock() != op->getBlock();
  // A thread keeps its elements in registers.
  if (!isForGpu(op) || !isFirst || !hasRoom(spec) || streams * streams > 32 ||
      hidden % kThreads != 0 || flat > 64 * kThreads)
    return false;
  const int64_t members = streams * std::max<int64_t>(2, streams) + 1;
  spec.block = spec.mostThreads = kThreads;
  spec.kernel = "hc_spread";
  spec.gridX = 2;
  spec.asides = 1;
  spec.tile = hidden;
  spec.scratchBytes = spec.gridY * 2 * members * sizeof(float);
  spec.constant("kMembers", members);
  spec.spread = std::make_shared<KernelSpec>(spec);
  spec.spread->kernel = "hc_mix";
  spec.spread->waits = true;
  spec.spread->gridX = static_cast<uint32_t>(2 * members);
  spec.spread->constant("kPost", post ? 1 : 0);
  spec.spread->args = {post ? post.getStreams() : op.getStreams(),
                       op.getFn(),
                       post ? post.getY() : Value{},
                       post ? post.getPost() : Value{},
                       post ? post.getComb() : Value{},
                       post ? post.getResult() : Value{}};
  SiteInput input(op);
  spec.constant("kNorm", input.norm ? 1 : 0)
      .constant("kQuantized", input.quantize ? 1 : 0)
      .constantF("kNormEps",
                 input.norm ? input.norm.getEps().convertToFloat() : 0.0f);
  spec.args = {op.getStreams(),
               op.getScale(),
               op.getBase(),
               input.norm ? Value{} : op.getX(),
               op.getPost(),
               op.getComb(),
               input.norm ? input.norm.getWeight() : Value{},
               input.norm ? input.norm.getResult() : Value{},
               input.quantize ? input.quantize.getResult() : Value{}};
  for (Operation *other : {post.getOperation(), input.norm.getOperation(),
                           input.quantize.getOperation()})
    if (other)
      spec.covered.push_back(other);
  return true;
}

/// In long steps on a GPU a block does several rows (ops/hc_tokens.hip). False:
/// it does not.
static bool shareMixes(HcPreOp op, KernelSpec &spec) {
  constexpr uint32_t kRows = 4;
  const int64_t streams = dim(op.getStreams(), 1);
  if (!isForGpu(op) || !hasRoom(spec) || rowCapacity(op) <= kMostColumns ||
      rowCapacity(op) % kRows != 0 || streams * streams > 32 ||
      op.getFn().getType().getRowElements() % kThreads != 0)
    return false;
  spec.kernel = "hc_tokens";
  spec.block = spec.mostThreads = kThreads;
  spec.columns = kRows;
  spec.tile = dim(op.getX(), 1);
  spec.constant("kColumns", kRows);
  spec.args = {op.getStreams(), op.getFn(),   op.getScale(), op.getBase(),
               op.getX(),       op.getPost(), op.getComb()};
  return true;
}

void addStreamKernels(KernelTable &kernels) {
  kernels.add<HcPreOp>([](HcPreOp op, KernelSpec &spec) {
    describeStreams(spec, op.getStreams(), op.getFn().getType(),
                    op.getEps().convertToFloat(),
                    op.getHcEps().convertToFloat());
    spec.constant("kIterations", op.getIterations());
    if (shareMixes(op, spec) || spreadMixes(op, spec))
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
