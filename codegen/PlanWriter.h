// PlanWriter.h - a planned module becomes the plan and the units that the
// runtime needs: from here on nothing knows MLIR.
#ifndef DS4_CODEGEN_PLANWRITER_H
#define DS4_CODEGEN_PLANWRITER_H

#include "codegen/Unit.h"
#include "runtime/BundleFormat.h"

#include "mlir/IR/BuiltinOps.h"

#include <vector>

namespace ds4::codegen {

/// A plan and the units that its launches name, each once, in the order of
/// first use.
struct EmittedPlan {
  Plan plan;
  std::vector<Unit> units;
};

/// Walks the functions of a module that ds4-plan-memory has annotated. Each op
/// with a kernel is a launch, in program order. Diagnostics at the op: no
/// kernel, no offset, a name that means two things, results that are not
/// (logits, argmax).
mlir::FailureOr<EmittedPlan> emitPlan(mlir::ModuleOp module);

/// Model facts from the module's attributes (models/DeepSeekV4.h): everything
/// of a manifest but tool, hashes, units and objects. Diagnostic: one is
/// missing.
mlir::FailureOr<Manifest> emitManifest(mlir::ModuleOp module);

} // namespace ds4::codegen

#endif // DS4_CODEGEN_PLANWRITER_H
