// FuseHyperConnection.cpp - from one site of the residual streams to the input
// of the next sublayer (see Passes.td).
#include "passes/Fusion.h"
#include "passes/Passes.h"

using namespace mlir;

namespace ds4 {

#define GEN_PASS_DEF_FUSEHYPERCONNECTION
#include "passes/Passes.h.inc"

using namespace ir;

namespace {

struct FuseHyperConnectionPass
    : impl::FuseHyperConnectionBase<FuseHyperConnectionPass> {
  using FuseHyperConnectionBase::FuseHyperConnectionBase;

  void fuseSite(Operation *collapse, Value streams) {
    SmallVector<Operation *> members;
    // On a GPU the products of a site with the streams are spread over blocks,
    // which make the streams each for itself, or must find them complete.
    const bool spread = isForGpu(collapse) && isa<HcPreOp>(collapse);
    const bool isShort = rowCapacity(collapse) <= kMostColumns;
    // What makes the streams, if it is small work on each row.
    Value made = streams;
    while (Operation *maker = makerOf(made)) {
      if (!isa<HcPostOp, EmbedOp, TakeOutputsOp>(maker) ||
          (spread && !(isa<HcPostOp>(maker) && isShort)))
        break;
      members.insert(members.begin(), maker);
      if (!isa<TakeOutputsOp>(maker))
        break;
      made = maker->getOperand(0);
    }
    members.push_back(collapse);
    Fusion fusion(explain);
    fusion.absorb(members,
                  [](Operation *op) { return isa<RmsNormOp, QuantizeOp>(op); });
    if (!fusion.fuse(members, "hyper_connection"))
      // Rows of outputs are not rows of tokens: without what made the streams.
      fusion.fuse({collapse}, "hyper_connection");
  }

  void runOnOperation() override {
    for (HcPreOp op : opsOf<HcPreOp>(getOperation()))
      fuseSite(op, op.getStreams());
    for (HeadCollapseOp op : opsOf<HeadCollapseOp>(getOperation()))
      fuseSite(op, op.getStreams());
  }
};

} // namespace

} // namespace ds4
