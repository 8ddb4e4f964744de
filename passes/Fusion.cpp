// Fusion.cpp - between the first and the last member other ops may stand. Those
// that read a member's result or touch its cache move behind the launch, the
// others stay in front; a member that needs one of the former is the reason to
// refuse.
#include "passes/Fusion.h"

using namespace mlir;

namespace ds4 {

using namespace ir;

struct Fusion::Plan {
  llvm::SetVector<Operation *> members; ///< of the block, in order, with views
  llvm::SetVector<Operation *> inner;   ///< their ops that have kernels
  SmallVector<Operation *> after;       ///< to be moved behind the launch
};

Operation *makerOf(Value value) {
  value = storageOf(value);
  Operation *op = value.getDefiningOp();
  if (op && isa<LaunchOp>(op->getParentOp()))
    return op->getParentOp();
  return op;
}

/// The op itself and, of a launch, those inside, without views.
static void forEachKernel(Operation *op,
                          llvm::function_ref<void(Operation *)> visit) {
  op->walk([&](Operation *inner) {
    if (!isa<LaunchOp, YieldOp>(inner) && !isFree(inner))
      visit(inner);
  });
}

/// Whether `op`, or an op inside, reads a result of one of `others` or touches
/// a cache of theirs.
static bool needs(Operation *op, ArrayRef<Operation *> others) {
  Block *block = op->getBlock();
  bool found = false;
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands())
      if (Operation *maker = operand.getDefiningOp())
        if (Operation *there = block->findAncestorOpInBlock(*maker))
          found |= there != op && llvm::is_contained(others, there);
  });
  for (Operation *other : others)
    forEachKernel(op, [&](Operation *a) {
      forEachKernel(other, [&](Operation *b) { found |= shareState(a, b); });
    });
  return found;
}

std::string Fusion::plan(ArrayRef<Operation *> members, Plan &plan) {
  SmallVector<Operation *> sorted(members);
  llvm::sort(sorted, [](Operation *a, Operation *b) {
    return a != b && a->isBeforeInBlock(b);
  });
  llvm::SetVector<Operation *> wanted(sorted.begin(), sorted.end());
  llvm::SetVector<Operation *> after;
  Operation *end = sorted.back()->getNextNode();
  for (Operation *op = sorted.front(); op != end; op = op->getNextNode()) {
    if (isFree(op) && !isa<ReshapeOp>(op))
      continue;
    if (!wanted.contains(op)) {
      if (needs(op, plan.members.getArrayRef()) ||
          needs(op, after.getArrayRef()))
        after.insert(op);
      continue;
    }
    // Views of members come along.
    SmallVector<Operation *> views;
    for (Operation *other : after)
      if (isa<ReshapeOp>(other) &&
          plan.members.contains(makerOf(other->getResult(0))))
        views.push_back(other);
    for (Operation *view : views)
      if (needs(op, view)) {
        after.remove(view);
        plan.members.insert(view);
      }
    for (Operation *other : after)
      if (needs(op, other))
        return (op->getName().stripDialect() + " needs " +
                other->getName().stripDialect() +
                ", which needs the others and is not of the launch")
            .str();
    plan.members.insert(op);
  }
  for (Operation *member : plan.members)
    forEachKernel(member, [&](Operation *op) { plan.inner.insert(op); });
  plan.after.assign(after.begin(), after.end());
  return whyNoLaunch(plan.inner);
}

LaunchOp Fusion::fuse(ArrayRef<Operation *> members, StringRef name) {
  Plan how;
  if (std::string why = plan(members, how); !why.empty()) {
    if (explain)
      members.front()->emitRemark() << "not fused: " << why;
    return {};
  }
  // A launch of this name and of these ops alone is what was asked for.
  if (how.members.size() == 1)
    if (auto same = dyn_cast<LaunchOp>(how.members.front()))
      return same;

  Operation *last = how.members.back();
  OpBuilder builder(last->getContext());
  builder.setInsertionPointAfter(last);
  Block body;
  for (Operation *member : how.members) {
    auto launch = dyn_cast<LaunchOp>(member);
    if (!launch) {
      member->moveBefore(&body, body.end());
      continue;
    }
    Block &inner = launch.getBody().front();
    for (Value result : launch.getResults())
      result.replaceAllUsesWith(launch.getYielded(result));
    inner.getTerminator()->erase();
    body.getOperations().splice(body.end(), inner.getOperations());
    launch->erase();
  }
  SmallVector<Value> leaving;
  for (Operation &op : body)
    for (Value result : op.getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) {
            return user->getBlock() != &body;
          }))
        leaving.push_back(result);
  Operation *lastOp = &body.back();
  auto launch = builder.create<LaunchOp>(lastOp->getLoc(),
                                         ValueRange(leaving).getTypes(), name);
  if (Attribute layer = lastOp->getAttr(kLayerAttr))
    launch->setAttr(kLayerAttr, layer);
  Block *block = new Block;
  launch.getBody().push_back(block);
  block->getOperations().splice(block->end(), body.getOperations());
  OpBuilder::atBlockEnd(block).create<YieldOp>(lastOp->getLoc(), leaving);
  for (auto [value, result] : llvm::zip_equal(leaving, launch.getResults()))
    value.replaceUsesWithIf(result, [&](OpOperand &use) {
      return !launch->isAncestor(use.getOwner());
    });
  Operation *place = launch;
  for (Operation *op : how.after) {
    op->moveAfter(place);
    place = op;
  }
  return launch;
}

void Fusion::absorb(SmallVectorImpl<Operation *> &members,
                    llvm::function_ref<bool(Operation *)> accept) {
  Operation *first = *llvm::min_element(members, [](auto *a, auto *b) {
    return a != b && a->isBeforeInBlock(b);
  });
  for (Operation *op = first; op; op = op->getNextNode()) {
    if (isFree(op) || llvm::is_contained(members, op) || !accept(op))
      continue;
    const bool reads = llvm::any_of(op->getOperands(), [&](Value operand) {
      Operation *maker = makerOf(operand);
      return maker && llvm::is_contained(members, maker);
    });
    if (!reads)
      continue;
    members.push_back(op);
    Plan how;
    if (std::string why = plan(members, how); !why.empty()) {
      members.pop_back();
      if (explain)
        op->emitRemark() << "not fused: " << why;
    }
  }
}

} // namespace ds4
