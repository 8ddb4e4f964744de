// LaunchBytes.h - what a launch moves, from the types of its arguments.
#ifndef DS4_CODEGEN_LAUNCHBYTES_H
#define DS4_CODEGEN_LAUNCHBYTES_H

#include "ir/Ds4Ops.h"
#include "runtime/BundleFormat.h"

namespace ds4::codegen {

/// WeightDesc::slicesPerToken.
uint64_t slicesPerToken(ir::WeightOp weight);

/// Adds to `launch` the bytes of argument `value`, which is no view, of the
/// launch that `op` is. What `op` makes is written, a cache that it appends to
/// by a row for each row of the step; other activations are read.
void addArgumentBytes(mlir::Operation *op, mlir::Value value, Launch &launch);

} // namespace ds4::codegen

#endif // DS4_CODEGEN_LAUNCHBYTES_H
