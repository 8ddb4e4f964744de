// ShareWeights.cpp - rows of activations that share what is decoded of a
// weight: the passes for phases of a few tokens and of many (see Passes.td).
#include "passes/Passes.h"

#include "ir/Launch.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace ds4 {

#define GEN_PASS_DEF_LAYERMAJOR
#define GEN_PASS_DEF_SPECIALISEVERIFY
#include "passes/Passes.h.inc"

using namespace ir;

namespace {

/// Tokens that a phase takes at most.
int64_t capacityOf(func::FuncOp function) {
  return activationShape(function.getArgumentTypes().front()).front();
}

/// Marks the products with weights of `function` whose steps have several rows.
void shareColumns(func::FuncOp function) {
  function.walk([](Operation *op) {
    if (!isa<LinearOp, GroupedLinearOp, ExpertGateUpOp, ExpertDownOp>(op))
      return;
    int64_t columns = std::min(rowCapacity(op), kMostColumns);
    if (rowCapacity(op) > kMostColumns && canUseTiles(op))
      columns = kTileColumns;
    if (columns > 1)
      op->setAttr(kColumnsAttr,
                  OpBuilder(op->getContext())
                      .getI32IntegerAttr(static_cast<int32_t>(columns)));
  });
}

/// Gives the expert products of `function` their pairs by expert, so that the
/// tokens of a whole step share an expert.
void groupPairs(func::FuncOp function) {
  llvm::MapVector<Value, Value> sorted;
  auto group = [&](auto product, int64_t count) {
    const Value experts = product.getExperts();
    Value &pairs = sorted[experts];
    if (!pairs) {
      auto op = OpBuilder(product).create<GroupPairsOp>(
          product.getLoc(), experts.getType(), experts, count);
      if (Attribute layer = product->getAttr(kLayerAttr))
        op->setAttr(kLayerAttr, layer);
      pairs = op;
    }
    product.getPairsMutable().assign(pairs);
  };
  function.walk([&](Operation *op) {
    if (auto product = dyn_cast<ExpertGateUpOp>(op))
      group(product, product.getGate().getType().getShape().front());
    else if (auto product = dyn_cast<ExpertDownOp>(op))
      group(product, product.getWeight().getType().getShape().front());
  });
}

struct SpecialiseVerifyPass : impl::SpecialiseVerifyBase<SpecialiseVerifyPass> {
  using SpecialiseVerifyBase::SpecialiseVerifyBase;

  void runOnOperation() override {
    const int64_t capacity = capacityOf(getOperation());
    if (capacity > 1 && capacity <= kMostColumns)
      shareColumns(getOperation());
    else if (explain)
      getOperation().emitRemark()
          << "not specialised: a step has up to " << capacity
          << " tokens, not 2 to " << kMostColumns;
  }
};

struct LayerMajorPass : impl::LayerMajorBase<LayerMajorPass> {
  using LayerMajorBase::LayerMajorBase;

  void runOnOperation() override {
    const int64_t capacity = capacityOf(getOperation());
    if (capacity > kMostColumns) {
      shareColumns(getOperation());
      groupPairs(getOperation());
    } else if (explain) {
      getOperation().emitRemark()
          << "not layer-major: a step has up to " << capacity
          << " tokens, no more than " << kMostColumns;
    }
  }
};

} // namespace

} // namespace ds4
