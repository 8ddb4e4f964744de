// AttentionKernels.cpp - entries of the kernel table: rotary embedding, caches,
// compressor, indexer and attention.
#include "codegen/KernelEntries.h"

using namespace mlir;

namespace ds4::codegen {

using namespace ir;

void addAttentionKernels(KernelTable &) {}

} // namespace ds4::codegen
