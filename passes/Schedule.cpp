// Schedule.cpp - launches that do not depend on one another become one (see
// Passes.td).
#include "passes/Fusion.h"
#include "passes/Passes.h"

#include "llvm/ADT/MapVector.h"

#include <map>

using namespace mlir;

namespace ds4 {

#define GEN_PASS_DEF_SCHEDULE
#include "passes/Passes.h.inc"

using namespace ir;

namespace {

struct SchedulePass : impl::ScheduleBase<SchedulePass> {
  using ScheduleBase::ScheduleBase;

  /// Ops whose blocks have a size or LDS of their own, or do a whole step.
  static bool standsAlone(Operation *op) {
    bool alone = isa<TraceOp, ObserveOp>(op) ||
                 op->hasTrait<OpTrait::IsTerminator>() || isFree(op);
    op->walk([&](Operation *inner) {
      alone |= isa<AttendOp, IndexScoreOp, ArgmaxOp>(inner) ||
               !whyAlone(inner).empty();
    });
    return alone;
  }

  void runOnOperation() override;
};

} // namespace

/// Length of the longest chain of launches that an op needs, itself included.
static llvm::MapVector<Operation *, int64_t> levelsOf(Block &block) {
  llvm::MapVector<Operation *, int64_t> levels;
  for (Operation &op : block) {
    if (isFree(&op) || isa<TraceOp, ObserveOp>(op) ||
        op.hasTrait<OpTrait::IsTerminator>())
      continue;
    int64_t level = 0;
    auto after = [&](Operation *other) {
      if (auto it = levels.find(other); it != levels.end())
        level = std::max(level, it->second + 1);
    };
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (Operation *maker = makerOf(operand))
          after(maker);
    });
    for (auto &[other, unused] : levels) {
      bool shared = false;
      op.walk([&](Operation *a) {
        other->walk([&](Operation *b) { shared |= shareState(a, b); });
      });
      if (shared)
        after(other);
    }
    levels[&op] = level;
  }
  return levels;
}

void SchedulePass::runOnOperation() {
  Block &block = getOperation().front();
  std::map<int64_t, SmallVector<Operation *>> byLevel;
  for (auto &[op, level] : levelsOf(block))
    if (!standsAlone(op))
      byLevel[level].push_back(op);
  Fusion fusion(explain);
  for (auto &[level, ops] : byLevel) {
    if (ops.size() < 2)
      continue;
    // Named after the one that had a name first.
    StringRef name = "side_by_side";
    for (Operation *op : llvm::reverse(ops))
      if (auto launch = dyn_cast<LaunchOp>(op))
        name = launch.getName();
    fusion.fuse(ops, name.str());
  }
}

} // namespace ds4
