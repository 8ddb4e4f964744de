// LaunchBytes.cpp - no op is asked by name what it writes: results are written,
// and effects tell which caches are.
#include "codegen/LaunchBytes.h"

#include "passes/PlanMemory.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>

using namespace mlir;

namespace ds4::codegen {

using namespace ir;

uint64_t slicesPerToken(WeightOp weight) {
  const uint64_t all = weight.getType().getShape().front();
  uint64_t most = 0;
  for (Operation *user : weight->getUsers()) {
    auto experts = [](auto op) -> uint64_t {
      return activationShape(op.getExperts().getType())[1];
    };
    const uint64_t slices =
        llvm::TypeSwitch<Operation *, uint64_t>(user)
            .Case<ObserveOp>([](auto) { return 0; })
            .Case<EmbedOp, HashRouteOp, ApeAddOp>([](auto) { return 1; })
            .Case<ExpertGateUpOp, ExpertDownOp>(experts)
            .Default(all);
    most = std::max(most, slices);
  }
  return most;
}

/// Rows of `state` that the ops of a launch append in a full step.
static int64_t appendedRows(Operation *launch, Value state) {
  int64_t rows = 0;
  launch->walk([&](MemoryEffectOpInterface op) {
    if (op.getEffectOnValue<MemoryEffects::Write>(state))
      rows += activationShape(op->getOperand(0).getType()).front();
  });
  return std::min<int64_t>(rows, cast<StateType>(state.getType()).getRows());
}

void addArgumentBytes(Operation *op, Value value, Launch &launch) {
  if (auto state = dyn_cast<StateType>(value.getType())) {
    launch.writtenBytes += appendedRows(op, value) * state.getRowBytes();
    return;
  }
  Operation *maker = value.getDefiningOp();
  if (auto weight = dyn_cast_or_null<WeightOp>(maker))
    launch.weightBytesPerToken += weight.getType().getDeviceBytes() /
                                  weight.getType().getShape().front() *
                                  slicesPerToken(weight);
  if (maker && isFree(maker))
    return;
  const int64_t bytes = activationBytes(value.getType()).value_or(0);
  if (maker && op->isAncestor(maker))
    launch.writtenBytes += bytes;
  else
    launch.readBytes += bytes;
}

} // namespace ds4::codegen
