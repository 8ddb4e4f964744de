// LinearKernels.cpp - entries of the kernel table: embedding, quantisation,
// linears and expert products.
#include "codegen/KernelEntries.h"

using namespace mlir;

namespace ds4::codegen {

using namespace ir;

void addLinearKernels(KernelTable &) {}

} // namespace ds4::codegen
