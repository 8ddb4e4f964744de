// Ds4Ops.h - C++ face of the ds4 dialect: include this to build or read its
// graphs. Meaning of every op and type: Ds4Ops.td, Ds4Types.td.
#ifndef DS4_IR_DS4OPS_H
#define DS4_IR_DS4OPS_H

#include "runtime/WeightFormats.h"
#include "runtime/WeightLayout.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace ds4::ir {

/// See Ds4Elementwise in Ds4Ops.td.
template <typename ConcreteOp>
class Elementwise : public mlir::OpTrait::TraitBase<ConcreteOp, Elementwise> {};

} // namespace ds4::ir

#include "ir/Ds4Dialect.h.inc"
#include "ir/Ds4Enums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/Ds4Attrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/Ds4Types.h.inc"
#define GET_OP_CLASSES
#include "ir/Ds4Ops.h.inc"

namespace ds4::ir {

/// Discardable attribute of an op: the layer that it belongs to, i32. Ops
/// outside the layers (embedding, head) do not have it.
inline constexpr llvm::StringLiteral kLayerAttr = "ds4.layer";

/// Discardable attribute of a linear: how many rows of activations share what
/// is decoded of the weight, i32: 1 to kMostColumns, or kTileColumns for tiles
/// of matrix instructions. A pass sets it; no bit depends on it.
inline constexpr llvm::StringLiteral kColumnsAttr = "ds4.columns";
/// Rows that a wave keeps sums for (ops/products.h).
inline constexpr int64_t kMostColumns = 8;
/// Rows that a block of ops/tile.h does.
inline constexpr int64_t kTileColumns = 64;

/// Rows of activations that share what is decoded of an op's weight.
int64_t columnsOf(mlir::Operation *op);

/// Shape of an activation, float or int8; the leading dimension is the rows.
llvm::ArrayRef<int64_t> activationShape(mlir::Type type);

/// The value whose bytes `value` is: through views and out of launches.
mlir::Value storageOf(mlir::Value value);

/// Whether the op is a view or a leaf: its result is no kernel's.
bool isFree(mlir::Operation *op);

} // namespace ds4::ir

#endif // DS4_IR_DS4OPS_H
