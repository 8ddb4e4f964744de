// Launch.h - what may share a ds4.launch: rows, states and selections of ops.
// The verifier of ds4.launch asks here, and so do passes before they fuse.
#ifndef DS4_IR_LAUNCH_H
#define DS4_IR_LAUNCH_H

#include "ir/Ds4Ops.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallVector.h"

#include <string>

namespace ds4::ir {

/// Domain of an op's rows: its `rows` attribute, or what its description
/// says. 1 tokens, R >= 2 windows of R tokens, 0 outputs.
int64_t rowRatio(mlir::Operation *op);

/// Rows that a step has at most: the leading dimension of what the op writes.
int64_t rowCapacity(mlir::Operation *op);

/// Values of a row of what `op` writes; all its results have as many.
int64_t rowValues(mlir::Operation *op);

/// The target that the profile of the op's module names; empty: none.
llvm::StringRef targetOf(mlir::Operation *op);

/// Whether the profile of the op's module names a GPU as target: launches are
/// then cut for many small blocks. Never a matter of results.
bool isForGpu(mlir::Operation *op);

/// Whether the op chooses by score and reports a NaN.
bool isSelection(mlir::Operation *op);

/// Why no other op may be in a launch with `op`, or nothing: its blocks do all
/// rows of a step, so that no other may wait for one of them, or tiles of them.
llvm::StringRef whyAlone(mlir::Operation *op);

/// Whether `op` is a product with a weight that a GPU can do by tiles: with
/// int8 activations blocks of 32 with no minimum, eight equal segments
/// (ops/tile.h); with f32 a linear with as many terms in each partial sum
/// (ops/linear_strided.hip).
bool canUseTiles(mlir::Operation *op);

/// Whether `a` and `b` touch one cache and one of them writes it.
bool shareState(mlir::Operation *a, mlir::Operation *b);

/// The ops among `ops` that make what `op` reads, through views.
llvm::SmallVector<mlir::Operation *>
producersAmong(const llvm::SetVector<mlir::Operation *> &ops,
               mlir::Operation *op);

/// The operand whose bytes the op's result may take if nobody else reads it any
/// more: every kernel of the op reads a value there before it writes the result
/// that takes its place, and by the same thread or behind a barrier. Null: the
/// result needs bytes of its own.
mlir::Value overwritable(mlir::Operation *op);

/// Why these ops, in order, cannot be one launch, or nothing.
std::string whyNoLaunch(const llvm::SetVector<mlir::Operation *> &ops);

} // namespace ds4::ir

#endif // DS4_IR_LAUNCH_H
