// FuseRouting.cpp - router and choice of experts (see Passes.td).
#include "passes/Fusion.h"
#include "passes/Passes.h"

using namespace mlir;

namespace ds4 {

#define GEN_PASS_DEF_FUSEROUTING
#include "passes/Passes.h.inc"

using namespace ir;

namespace {

struct FuseRoutingPass : impl::FuseRoutingBase<FuseRoutingPass> {
  using FuseRoutingBase::FuseRoutingBase;

  void runOnOperation() override {
    Fusion fusion(explain);
    getOperation().walk([&](Operation *op) {
      if (!isa<RouteOp, HashRouteOp>(op) || isa<LaunchOp>(op->getParentOp()))
        return;
      Operation *router = makerOf(op->getOperand(0));
      if (router)
        fusion.fuse({router, op}, "routing");
    });
  }
};

} // namespace

} // namespace ds4
