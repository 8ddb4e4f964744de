// StreamKernels.cpp - entries of the kernel table: residual streams, norms and
// the rows that need logits.
#include "codegen/KernelEntries.h"

using namespace mlir;

namespace ds4::codegen {

using namespace ir;

void addStreamKernels(KernelTable &) {}

} // namespace ds4::codegen
