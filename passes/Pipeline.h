// Pipeline.h - the whole order of passes, by stage.
#ifndef DS4_PASSES_PIPELINE_H
#define DS4_PASSES_PIPELINE_H

#include "mlir/Pass/PassManager.h"

namespace ds4 {

/// model -> fused: what makes fewer and larger ops. Bits never change.
void addFusionPasses(mlir::OpPassManager &passes);

/// fused -> planned: places of all buffers.
void addPlanningPasses(mlir::OpPassManager &passes);

/// Registers every pass and both pipelines (ds4-fuse, ds4-plan) for ds4-opt.
void registerDs4Passes();

} // namespace ds4

#endif // DS4_PASSES_PIPELINE_H
