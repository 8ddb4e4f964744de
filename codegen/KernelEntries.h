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

/// Threads of a block that has `lanes` to do: whole waves, at most `waves`.
inline uint32_t wavesFor(int64_t lanes, int64_t waves) {
  return static_cast<uint32_t>(
      32 * std::clamp<int64_t>((lanes + 31) / 32, 1, waves));
}

/// Launch of an elementwise kernel (ops/elements.h) over `elements` of a row:
/// constant kItems, blocks of at most `waves` waves.
inline void launchElements(KernelSpec &spec, int64_t elements,
                           int64_t items = 4, int64_t waves = 8) {
  spec.block = wavesFor((elements + items - 1) / items, waves);
  const int64_t perBlock = spec.block * items;
  spec.gridX = static_cast<uint32_t>((elements + perBlock - 1) / perBlock);
  spec.constant("kItems", items);
}

} // namespace ds4::codegen

#endif // DS4_CODEGEN_KERNELENTRIES_H
