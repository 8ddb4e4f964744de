// FuseProjections.cpp - linears of one input, and the small work on what they
// make (see Passes.td).
#include "passes/Fusion.h"
#include "passes/Passes.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace ds4 {

#define GEN_PASS_DEF_FUSEPROJECTIONS
#include "passes/Passes.h.inc"

using namespace ir;

namespace {

struct FuseProjectionsPass : impl::FuseProjectionsBase<FuseProjectionsPass> {
  using FuseProjectionsBase::FuseProjectionsBase;

  /// The f32 activation that a linear reads, itself or as int8.
  static Value inputOf(Operation *linear) {
    Value x = storageOf(linear->getOperand(0));
    if (auto quantize = x.getDefiningOp<QuantizeOp>())
      x = storageOf(quantize.getX());
    return x;
  }

  /// Work on a row that one block does in passing.
  bool isSmall(Operation *op) const {
    return isa<RmsNormOp, RopeOp, SimulateOp, HadamardOp, RoundRowOp,
               QuantizeOp, SwigluOp, ApeAddOp>(op) &&
           rowValues(op) <= mostTailValues;
  }

  void runOnOperation() override {
    llvm::MapVector<Value, SmallVector<Operation *>> byInput;
    getOperation().walk([&](Operation *op) {
      if (isa<LinearOp, GroupedLinearOp>(op))
        byInput[inputOf(op)].push_back(op);
    });
    Fusion fusion(explain);
    for (auto &[input, linears] : byInput) {
      SmallVector<Operation *> members(linears);
      fusion.absorb(members, [&](Operation *op) { return isSmall(op); });
      if (members.size() > 1)
        fusion.fuse(members, "projections");
    }
  }
};

} // namespace

} // namespace ds4
