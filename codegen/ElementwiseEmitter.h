// ElementwiseEmitter.h - bodies of ops with trait Ds4Elementwise: text instead
// of a device file. Ops that follow one another in a launch are one body, a
// loop over the items of a tile in which values stay in registers.
#ifndef DS4_CODEGEN_ELEMENTWISEEMITTER_H
#define DS4_CODEGEN_ELEMENTWISEEMITTER_H

#include "codegen/KernelTable.h"

namespace ds4::codegen {

/// Whether `next`, the body of an elementwise op, can be done in the loop of
/// `body`: both are elementwise, on one tile of the same rows, and `next` reads
/// what `body` makes as it is.
bool canJoin(const KernelSpec &body, const KernelSpec &next);

/// Does the ops of `next` behind those of `body`, in one loop.
void join(KernelSpec &body, const KernelSpec &next);

} // namespace ds4::codegen

#endif // DS4_CODEGEN_ELEMENTWISEEMITTER_H
