// KernelTable.h - which device file implements an op, with which constants,
// grid and arguments. Entries are in *Kernels.cpp, one an op; nothing else in
// codegen knows an op by name.
#ifndef DS4_CODEGEN_KERNELTABLE_H
#define DS4_CODEGEN_KERNELTABLE_H

#include "codegen/Unit.h"
#include "ir/Ds4Ops.h"
#include "runtime/BundleFormat.h"

#include "llvm/ADT/SmallVector.h"

#include <optional>
#include <string>
#include <vector>

namespace ds4::codegen {

/// One kernel specialised for one op: what is printed in front of its device
/// file, and how it is launched. Two specs with equal text share a unit.
class KernelSpec {
public:
  /// Device file without extension: "linear" means ops/linear.hip. An entry
  /// finds the op's mnemonic here.
  std::string kernel;
  /// Decoder that the kernel includes, ops/weights/NAME.h; if any.
  std::optional<WeightFormat> format;
  /// `constexpr TYPE NAME = VALUE;` lines, in this order.
  struct Constant {
    std::string type, name, value;
  };
  std::vector<Constant> constants;
  /// Threads a block; also printed as kThreads.
  uint32_t block = 32;
  /// Blocks that work on one row.
  uint32_t gridX = 1;
  /// Rows: capacity of the domain, and the domain, printed as kRatio. An entry
  /// finds the leading dimension of the first result (or operand) and
  /// rowRatio(op) here.
  uint32_t gridY = 1;
  RowRatio ratio = 1;
  /// Pointer arguments in the kernel's order, without the step, which is
  /// always last. A null value is passed as a null pointer.
  llvm::SmallVector<mlir::Value> args;
  /// The kernel takes a StepStatus pointer before the step (selections).
  bool reportsNan = false;
  uint64_t weightBytesPerToken = 0;

  KernelSpec &constant(llvm::StringRef name, int64_t value); // u32
  KernelSpec &constantF(llvm::StringRef name, float value);  // hex float
};

/// Domain of an op's rows: its `rows` attribute, or what its description
/// says.
RowRatio rowRatio(mlir::Operation *op);

/// The spec of `op`, or a diagnostic at the op if no kernel does it.
mlir::FailureOr<KernelSpec> kernelFor(mlir::Operation *op);

/// Names of all ops that have an entry ("ds4.linear"), ascending.
std::vector<std::string> opsWithKernels();

/// Text of the unit: a comment, prelude, constants, decoder, device file. The
/// kernel's symbol is KERNEL_HASH with the first 8 hex digits of the hash of
/// the text and of every file that it includes.
Unit emitUnit(const KernelSpec &spec);

} // namespace ds4::codegen

#endif // DS4_CODEGEN_KERNELTABLE_H
