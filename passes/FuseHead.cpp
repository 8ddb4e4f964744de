// FuseHead.cpp - the greedy choice behind the logits (see Passes.td).
#include "passes/Fusion.h"
#include "passes/Passes.h"

using namespace mlir;

namespace ds4 {

#define GEN_PASS_DEF_FUSEHEAD
#include "passes/Passes.h.inc"

using namespace ir;

namespace {

struct FuseHeadPass : impl::FuseHeadBase<FuseHeadPass> {
  using FuseHeadBase::FuseHeadBase;

  void runOnOperation() override {
    Fusion fusion(explain);
    for (ArgmaxOp argmax : opsOf<ArgmaxOp>(getOperation())) {
      Operation *head = makerOf(argmax.getLogits());
      // On a GPU the choice is too much for the one block that ends a launch.
      if (head && !isa<LaunchOp>(argmax->getParentOp()) && !isForGpu(argmax))
        fusion.fuse({head, argmax}, "head");
    }
  }
};

} // namespace

} // namespace ds4
