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

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    for (AttendOp op : opsOf<AttendOp>(function)) {
      if (Operation *maker = op.getQ().getDefiningOp<RopeOp>())
        if (auto norm = maker->getOperand(0).getDefiningOp<RmsNormOp>())
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
