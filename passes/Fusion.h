// Fusion.h - puts ops of a function into a ds4.launch: what every fusing pass
// does once it knows which ops it wants.
#ifndef DS4_PASSES_FUSION_H
#define DS4_PASSES_FUSION_H

#include "ir/Launch.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ds4 {

class Fusion {
public:
  /// `explain`: a remark for each refusal.
  explicit Fusion(bool explain) : explain(explain) {}

  /// One launch of `members`, ops and launches of one block; returns it, or
  /// null if they cannot be one: a member would have to run both before and
  /// after an op that is none, or ir/Launch.h says why not. Members move down
  /// to the last of them.
  ir::LaunchOp fuse(mlir::ArrayRef<mlir::Operation *> members,
                    mlir::StringRef name);

  /// Adds to `members` every op that reads what they make, directly or through
  /// others that are added, if `accept` takes it and all can be one launch.
  void absorb(mlir::SmallVectorImpl<mlir::Operation *> &members,
              llvm::function_ref<bool(mlir::Operation *)> accept);

private:
  struct Plan;
  /// How to fuse, or why not.
  std::string plan(mlir::ArrayRef<mlir::Operation *> members, Plan &plan);

  bool explain;
};

/// The op of the function's block that makes `value`, through views: an op, or
/// the launch that holds it. Null for arguments.
mlir::Operation *makerOf(mlir::Value value);

/// Ops of type OpT of a function, also those in launches, in order.
template <typename OpT>
mlir::SmallVector<OpT> opsOf(mlir::func::FuncOp function) {
  mlir::SmallVector<OpT> ops;
  function.walk([&](OpT op) { ops.push_back(op); });
  return ops;
}

} // namespace ds4

#endif // DS4_PASSES_FUSION_H
