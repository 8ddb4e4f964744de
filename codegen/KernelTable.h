// KernelTable.h - which device file implements an op, with which constants,
// grid and arguments. Entries are in *Kernels.cpp, one an op, those of
// elementwise ops in ElementwiseEmitter.cpp; nothing else in codegen knows an
// op by name. How bodies make up a launch is in LaunchSpec.h.
#ifndef DS4_CODEGEN_KERNELTABLE_H
#define DS4_CODEGEN_KERNELTABLE_H

#include "ir/Ds4Ops.h"
#include "runtime/BundleFormat.h"

#include "llvm/ADT/SmallVector.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ds4::codegen {

/// What the launch that a body is part of asks of it. 0: the body is free.
struct Placement {
  uint32_t threads = 0; ///< of a block
  /// Values of a row that a block is to write (KernelSpec::tile); a body whose
  /// tile is given by its op ignores this.
  int64_t tile = 0;
};

/// One body specialised for one op: what is printed in front of its device
/// file, and how many blocks of which size run it.
class KernelSpec {
public:
  Placement placement;
  /// Device file without extension: "linear" means ops/linear.hip. An entry
  /// finds the op's mnemonic here.
  std::string kernel;
  /// Printed instead of a device file: `run` of elementwise ops, which it does
  /// in this order.
  std::string text;
  llvm::SmallVector<mlir::Operation *, 1> elementwise;
  /// Decoder that the kernel includes, ops/weights/NAME.h; if any.
  std::optional<WeightFormat> format;
  /// Layout header of the weight that it multiplies, ops/layouts/NAME.h; other
  /// weights are in layout `file`.
  std::optional<WeightLayout> layout;
  /// `constexpr TYPE NAME = VALUE;` lines, in this order.
  struct Constant {
    std::string type, name, value;
  };
  std::vector<Constant> constants;
  /// Threads a block: placement.threads, or what suits the body best. Units
  /// print it as kThreads.
  uint32_t block = 32;
  /// The most threads that the body can use, for want of LDS or work.
  uint32_t mostThreads = 1024;
  /// Blocks that work on one row.
  uint32_t gridX = 1;
  /// Block b writes the values b * tile, ..., (b + 1) * tile - 1 of a row of
  /// each result; 0: it does not write so.
  int64_t tile = 0;
  /// Blocks behind those of the tiles: what they write no tile has.
  uint32_t asides = 0;
  /// Of operands whose rows are as long as the results', a block reads no other
  /// values than those of its tile.
  bool local = false;
  /// Rows: capacity of the domain, and the domain, printed as kRatio. An entry
  /// finds the leading dimension of the first result (or operand) and
  /// ir::rowRatio here.
  uint32_t gridY = 1;
  /// Rows of the domain that a block does together.
  uint32_t columns = 1;
  RowRatio ratio = 1;
  /// Pointer arguments in the kernel's order, without the step, which is
  /// always last. A null value is a null pointer.
  llvm::SmallVector<mlir::Value> args;
  /// What blocks of their own do before this body, if it is the first of its
  /// launch: spread->gridX / gridX neighbouring blocks for each of its blocks,
  /// which the one that finishes last of them then does.
  std::shared_ptr<KernelSpec> spread{};
  /// Ops of the launch that the body does beside its own, one that makes what
  /// it reads or that reads what it makes: they have no bodies. It keeps in
  /// registers what nobody else reads, for whose place another result may have
  /// (ir::overwritable), and writes what somebody may read.
  llvm::SmallVector<mlir::Operation *, 2> covered;
  /// The spread is a launch of its own in front, since this body is long enough
  /// to be worth many blocks; not if the op shares its launch with others that
  /// have blocks of their own.
  bool apart = false;
  /// The body calls wait_for_previous() itself, when it has begun to read its
  /// weights.
  bool waits = false;
  /// Scratch memory of the launch, bytes. Bodies that have some get its pointer
  /// behind `args`; its contents are undefined before, and lost after.
  uint64_t scratchBytes = 0;
  /// LDS of a block besides the body's static arrays.
  uint32_t sharedBytes = 0;
  /// Blocks that an NVIDIA multiprocessor should have room for, with the
  /// fewer registers the more they are; 0: as it comes.
  uint32_t resident = 0;
  /// The kernel takes a StepStatus pointer before the step (selections).
  bool reportsNan = false;

  KernelSpec &constant(llvm::StringRef name, int64_t value); // u32
  KernelSpec &constantF(llvm::StringRef name, float value);  // hex float
};

/// The spec of `op`, or a diagnostic at the op if no kernel does it so.
mlir::FailureOr<KernelSpec> kernelFor(mlir::Operation *op,
                                      Placement placement = {});

/// Names of all ops that have an entry ("ds4.linear"), ascending.
std::vector<std::string> opsWithKernels();

} // namespace ds4::codegen

#endif // DS4_CODEGEN_KERNELTABLE_H
