// RoutingKernels.cpp - entries of the kernel table: expert choice, activation,
// combination and argmax.
#include "codegen/KernelEntries.h"

using namespace mlir;

namespace ds4::codegen {

using namespace ir;

void addRoutingKernels(KernelTable &) {}

} // namespace ds4::codegen
