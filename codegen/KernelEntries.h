// KernelEntries.h - how *Kernels.cpp register their entries; for those files
// and KernelTable.cpp only.
//
//   void addLinearKernels(KernelTable &kernels) {
//     kernels.add<LinearOp>([](LinearOp op, KernelSpec &spec) {
//       spec.constant("kIn", ...).constant("kOut", ...);
//       spec.args = {op.getX(), op.getWeight(), op.getResult()};
//       return success();
//     });
//   }
//
// What the kernel cannot do is a diagnostic: `return op.emitOpError() << ...`.
#ifndef DS4_CODEGEN_KERNELENTRIES_H
#define DS4_CODEGEN_KERNELENTRIES_H

#include "codegen/KernelTable.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <map>

namespace ds4::codegen {

class KernelTable {
public:
  /// `entry(op, spec)` completes a spec whose kernel, gridY and ratio are set
  /// as KernelSpec says.
  template <typename OpT, typename Entry> void add(Entry entry) {
    bool isNew =
        entries
            .try_emplace(OpT::getOperationName().str(),
                         [entry](mlir::Operation *op, KernelSpec &spec) {
                           return mlir::LogicalResult(
                               entry(mlir::cast<OpT>(op), spec));
                         })
            .second;
    assert(isNew && "an op with two entries");
    (void)isNew;
  }

  using Entry =
      std::function<mlir::LogicalResult(mlir::Operation *, KernelSpec &)>;
  std::map<std::string, Entry, std::less<>> entries;
};

void addElementwiseKernels(KernelTable &kernels);
void addLinearKernels(KernelTable &kernels);
void addStreamKernels(KernelTable &kernels);
void addAttentionKernels(KernelTable &kernels);
void addRoutingKernels(KernelTable &kernels);

/// Dimension `i` of an activation, float or int8.
inline int64_t dim(mlir::Value activation, unsigned i) {
  return ir::activationShape(activation.getType())[i];
}

/// Elements of a row of an activation: all dimensions but the leading one.
inline int64_t rowElements(mlir::Value activation) {
  int64_t elements = 1;
  for (int64_t size : ir::activationShape(activation.getType()).drop_front())
    elements *= size;
  return elements;
}

/// Threads of a block: those of the launch or, if the body is free, enough for
/// `lanes`, in whole waves, at most `waves`.
inline uint32_t threadsFor(const KernelSpec &spec, int64_t lanes,
                           int64_t waves) {
  if (spec.placement.threads)
    return spec.placement.threads;
  return static_cast<uint32_t>(
      32 * std::clamp<int64_t>((lanes + 31) / 32, 1, waves));
}

/// Launch of an elementwise body (ops/elements.h) over `items` of a row, each
/// of `itemValues` values: constant kTile, blocks of at most `waves` waves with
/// `perThread` items a thread.
inline void launchElements(KernelSpec &spec, int64_t items,
                           int64_t perThread = 4, int64_t waves = 8,
                           int64_t itemValues = 1) {
  spec.block = threadsFor(spec, (items + perThread - 1) / perThread, waves);
  int64_t tile = spec.block * perThread;
  if (spec.placement.tile)
    tile = std::max<int64_t>(spec.placement.tile / itemValues, 1);
  spec.gridX = static_cast<uint32_t>((items + tile - 1) / tile);
  spec.tile = tile * itemValues;
  spec.constant("kTile", tile);
}

} // namespace ds4::codegen

#endif // DS4_CODEGEN_KERNELENTRIES_H
