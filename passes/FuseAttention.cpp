// FuseAttention.cpp - queries, indexer and attention (see Passes.td).
#include "passes/Fusion.h"
#include "passes/Passes.h"

using namespace mlir;

namespace ds4 {

#define GEN_PASS_DEF_FUSEATTENTION
#include "passes/Passes.h.inc"

using namespace ir;

namespace {

struct FuseAttentionPass : impl::FuseAttentionBase<FuseAttentionPass> {
  using FuseAttentionBase::FuseAttentionBase;

  template <typename... Ops> void fuseFrom(Operation *anchor, StringRef name) {
    if (isa<LaunchOp>(anchor->getParentOp()))
      return;
    Fusion fusion(explain);
    SmallVector<Operation *> members{anchor};
    fusion.absorb(members, [](Operation *op) { return isa<Ops...>(op); });
    if (members.size() > 1)
      fusion.fuse(members, name);
  }

  /// With one token a step on a GPU, where heads end in blocks of their own
  /// (codegen/LaunchSpec.h): norm and rotation where the product is.
  bool fuseWithProduct(RmsNormOp norm, Operation *rope) {
    Operation *product = makerOf(norm.getX());
    if (!product || !isForGpu(norm) || rowCapacity(norm) > 1 ||
        !whyAlone(product).empty() || isa<LaunchOp>(norm->getParentOp()))
      return false;
    return static_cast<bool>(
        Fusion(explain).fuse({product, norm, rope}, "queries"));
  }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    for (AttendOp op : opsOf<AttendOp>(function)) {
      if (Operation *rope = op.getQ().getDefiningOp<RopeOp>())
        if (auto norm = rope->getOperand(0).getDefiningOp<RmsNormOp>())
          if (!fuseWithProduct(norm, rope))
            fuseFrom<RopeOp>(norm, "queries");
      fuseFrom<RopeOp, QuantizeOp>(op, "attention");
    }
    for (IndexScoreOp op : opsOf<IndexScoreOp>(function)) {
      // The queries' chain from its rotation on.
      Operation *first = nullptr;
      for (Operation *maker = op.getQ().getDefiningOp();
           maker && isa<RopeOp, HadamardOp, SimulateOp>(maker);
           maker = maker->getOperand(0).getDefiningOp())
        first = maker;
      if (first)
        fuseFrom<RopeOp, HadamardOp, SimulateOp>(first, "index_queries");
      fuseFrom<TopKOp>(op, "indexer");
    }
  }
};

} // namespace

} // namespace ds4
