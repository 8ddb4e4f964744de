// KernelTable.cpp - look-up of entries.
#include "codegen/KernelTable.h"

#include "codegen/KernelEntries.h"
#include "ir/Launch.h"

#include <fmt/format.h>

using namespace mlir;

namespace ds4::codegen {

using namespace ir;

static const KernelTable &table() {
  static const KernelTable kernels = [] {
    KernelTable all;
    addElementwiseKernels(all);
    addLinearKernels(all);
    addStreamKernels(all);
    addAttentionKernels(all);
    addRoutingKernels(all);
    return all;
  }();
  return kernels;
}

KernelSpec &KernelSpec::constant(llvm::StringRef name, int64_t value) {
  assert(value >= 0 && value <= 0xffffffff && "a constant beyond u32");
  constants.push_back({"u32", name.str(), std::to_string(value)});
  return *this;
}

KernelSpec &KernelSpec::constantF(llvm::StringRef name, float value) {
  constants.push_back({"float", name.str(), fmt::format("{:a}f", value)});
  return *this;
}

FailureOr<KernelSpec> kernelFor(Operation *op, Placement placement) {
  auto entry = table().entries.find(op->getName().getStringRef());
  if (entry == table().entries.end())
    return op->emitOpError() << "has no kernel: add an entry to codegen/"
                                "*Kernels.cpp";
  KernelSpec spec;
  spec.placement = placement;
  spec.kernel = op->getName().stripDialect().str();
  spec.gridY = static_cast<uint32_t>(rowCapacity(op));
  spec.ratio = rowRatio(op);
  if (failed(entry->second(op, spec)))
    return failure();
  if (placement.threads && spec.block != placement.threads)
    return op->emitOpError()
           << "needs blocks of " << spec.block
           << " threads; its launch has blocks of " << placement.threads;
  const WeightLayout known = spec.layout.value_or(WeightLayout::file);
  for (Type type : op->getOperandTypes())
    if (auto weight = dyn_cast<WeightType>(type))
      if (weight.getLayout() != known)
        return op->emitOpError()
               << "reads " << weight << ", but its kernel knows only layout "
               << weightLayoutName(known);
  return spec;
}

std::vector<std::string> opsWithKernels() {
  std::vector<std::string> names;
  for (const auto &entry : table().entries)
    names.push_back(entry.first);
  return names;
}

} // namespace ds4::codegen
