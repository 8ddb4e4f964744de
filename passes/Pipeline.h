// Pipeline.h - the whole order of passes, by stage.
#ifndef DS4_PASSES_PIPELINE_H
#define DS4_PASSES_PIPELINE_H

#include "mlir/Pass/PassManager.h"

#include <string>

namespace ds4 {

/// model -> fused: what makes fewer and larger ops. Bits never change.
/// `disabled`: passes to leave out, of optionalPasses().
void addFusionPasses(mlir::OpPassManager &passes,
                     llvm::ArrayRef<std::string> disabled = {});

/// fused -> planned: layouts of weights, places of all buffers.
void addPlanningPasses(mlir::OpPassManager &passes,
                       llvm::ArrayRef<std::string> disabled = {});

/// Passes that the pipelines may leave out: bits stay the same.
llvm::ArrayRef<llvm::StringRef> optionalPasses();

/// Registers every pass and both pipelines (ds4-fuse, ds4-plan) for ds4-opt.
void registerDs4Passes();

} // namespace ds4

#endif // DS4_PASSES_PIPELINE_H
