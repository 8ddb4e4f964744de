// AssignLayouts.cpp - see Passes.td. Weights are gathered by name, since every
// function has its own op for a tensor that is in memory once.
#include "passes/Passes.h"

#include "ir/Ds4Ops.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace ds4 {

#define GEN_PASS_DEF_ASSIGNLAYOUTS
#include "passes/Passes.h.inc"

using namespace ir;

namespace {

/// A tensor of the file: its ops, and what keeps it in the file's layout.
struct Weight {
  SmallVector<WeightOp> ops;
  bool isMultiplied = false; ///< by int8 activations, somewhere
  std::string reason;        ///< empty: nothing
};

class AssignLayoutsPass : public impl::AssignLayoutsBase<AssignLayoutsPass> {
public:
  using AssignLayoutsBase::AssignLayoutsBase;

private:
  void runOnOperation() override;
  void collect(ModuleOp module);
  void matchPartners(ModuleOp module);

  llvm::MapVector<StringRef, Weight> weights;
};

} // namespace

/// The activations that a product multiplies its weights by, or null for
/// another op.
static Value activationsOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case<LinearOp, GroupedLinearOp, ExpertGateUpOp>(
          [](auto product) { return product.getX(); })
      .Case([](ExpertDownOp product) { return product.getH(); })
      .Default(Value());
}

void AssignLayoutsPass::collect(ModuleOp module) {
  module.walk([&](WeightOp op) {
    Weight &weight = weights[op.getName()];
    weight.ops.push_back(op);
    for (Operation *user : op->getUsers()) {
      if (isa<ObserveOp>(user)) // names the weight, reads nothing
        continue;
      Value x = activationsOf(user);
      if (x && isa<Q8Type>(x.getType()))
        weight.isMultiplied = true;
      else
        weight.reason =
            (user->getName().getStringRef() + " reads rows as in the file" +
             (x ? ": its activations are f32" : ""))
                .str();
    }
    WeightType type = op.getType();
    if (!LaneRow::of(type.getFormat(), type.getRowElements())) {
      std::string_view format = weightFormatInfo(type.getFormat()).name;
      weight.reason = llvm::formatv("a row of {0} elements of {1} has no 8 "
                                    "segments of whole blocks",
                                    type.getRowElements(),
                                    StringRef(format.data(), format.size()))
                          .str();
    }
  });
}

/// A kernel that reads two weights knows one layout for both.
void AssignLayoutsPass::matchPartners(ModuleOp module) {
  module.walk([&](ExpertGateUpOp op) {
    auto gate = op.getGate().getDefiningOp<WeightOp>();
    auto up = op.getUp().getDefiningOp<WeightOp>();
    if (!gate || !up)
      return;
    Weight &one = weights[gate.getName()], &other = weights[up.getName()];
    if (one.reason.empty() && !other.reason.empty())
      one.reason = ("'" + up.getName() +
                    "', which is read beside it, is in "
                    "the file's layout")
                       .str();
    else if (other.reason.empty() && !one.reason.empty())
      other.reason = ("'" + gate.getName() +
                      "', which is read beside it, is "
                      "in the file's layout")
                         .str();
  });
}

void AssignLayoutsPass::runOnOperation() {
  weights.clear();
  collect(getOperation());
  matchPartners(getOperation());
  for (auto &[name, weight] : weights) {
    if (!weight.isMultiplied)
      continue;
    if (!weight.reason.empty()) {
      if (explain)
        weight.ops.front().emitRemark()
            << "stays in the file's layout: " << weight.reason;
      continue;
    }
    for (WeightOp op : weight.ops)
      op.getResult().setType(op.getType().withLayout(WeightLayout::lanes));
  }
}

} // namespace ds4
