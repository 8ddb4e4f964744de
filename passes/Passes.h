// Passes.h - constructors and registration of the passes in Passes.td.
#ifndef DS4_PASSES_PASSES_H
#define DS4_PASSES_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace ds4 {

/// Attributes that `ds4-plan-memory` writes: bytes, one i64 a result, on ops;
/// i64 on functions.
inline constexpr llvm::StringLiteral kOffsetsAttr = "ds4.offsets";
inline constexpr llvm::StringLiteral kArenaBytesAttr = "ds4.arena_bytes";

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

} // namespace ds4

#endif // DS4_PASSES_PASSES_H
