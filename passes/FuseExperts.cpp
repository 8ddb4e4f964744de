// FuseExperts.cpp - the two products of the experts with what lies between and
// behind (see Passes.td).
#include "passes/Fusion.h"
#include "passes/Passes.h"

using namespace mlir;

namespace ds4 {

#define GEN_PASS_DEF_FUSEEXPERTS
#include "passes/Passes.h.inc"

using namespace ir;

namespace {

struct FuseExpertsPass : impl::FuseExpertsBase<FuseExpertsPass> {
  using FuseExpertsBase::FuseExpertsBase;

  void runOnOperation() override {
    Fusion fusion(explain);
    for (ExpertGateUpOp op : opsOf<ExpertGateUpOp>(getOperation())) {
      SmallVector<Operation *> members{op};
      // Blocks that share an expert among tokens write no tile of a row: what
      // follows is a launch of its own, or one block would do all of it.
      if (op->hasAttr(kColumnsAttr)) {
        auto swiglu = dyn_cast<SwigluOp>(*op.getGateOut().user_begin());
        if (!swiglu)
          continue;
        members.assign({swiglu});
      }
      fusion.absorb(members, [](Operation *user) {
        return isa<SwigluOp, RotateOp, QuantizeOp>(user);
      });
      if (members.size() > 1)
        fusion.fuse(members, isa<SwigluOp>(members.front())
                                 ? "expert_activation"
                                 : "expert_gate_up");
    }
    for (CombineOp op : opsOf<CombineOp>(getOperation())) {
      SmallVector<Operation *> members;
      for (Value input : {op.getY(), op.getShared()})
        if (Operation *maker = makerOf(input);
            maker && isa<ExpertDownOp, LinearOp>(maker) &&
            whyAlone(maker).empty())
          members.push_back(maker);
      members.push_back(op);
      if (members.size() > 1)
        fusion.fuse(members, isa<ExpertDownOp>(members.front()) ? "expert_down"
                                                                : "combine");
    }
  }
};

} // namespace

} // namespace ds4
