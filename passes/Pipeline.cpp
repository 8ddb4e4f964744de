// Pipeline.cpp - the order of all passes on one page; beside each, how to run
// it alone.
#include "passes/Pipeline.h"

#include "passes/Passes.h"

#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace ds4 {

/// What the pipelines may leave out.
static constexpr StringRef kOptional[] = {"cse",
                                          "ds4-specialise-verify",
                                          "ds4-layer-major",
                                          "ds4-fuse-hyper-connection",
                                          "ds4-fuse-projections",
                                          "ds4-fuse-compressor",
                                          "ds4-fuse-routing",
                                          "ds4-fuse-experts",
                                          "ds4-fuse-attention",
                                          "ds4-fuse-head",
                                          "ds4-schedule",
                                          "ds4-assign-layouts"};

ArrayRef<StringRef> optionalPasses() { return kOptional; }

/// Adds a pass of kOptional unless it is disabled.
static void addOptional(OpPassManager &passes, ArrayRef<std::string> disabled,
                        std::unique_ptr<Pass> pass) {
  assert(llvm::is_contained(kOptional, pass->getArgument()));
  if (!llvm::is_contained(disabled, pass->getArgument()))
    passes.addPass(std::move(pass));
}

void addFusionPasses(OpPassManager &passes, ArrayRef<std::string> disabled) {
  addOptional(passes, disabled, createCSEPass()); // ds4-opt --cse
  auto &functions = passes.nest<func::FuncOp>();
  const auto add = [&](std::unique_ptr<Pass> pass) {
    addOptional(functions, disabled, std::move(pass));
  };
  add(createSpecialiseVerify());    // --ds4-specialise-verify
  add(createLayerMajor());          // --ds4-layer-major
  add(createFuseHyperConnection()); // --ds4-fuse-hyper-connection
  add(createFuseProjections());     // --ds4-fuse-projections
  add(createFuseCompressor());      // --ds4-fuse-compressor
  add(createFuseRouting());         // --ds4-fuse-routing
  add(createFuseExperts());         // --ds4-fuse-experts
  add(createFuseAttention());       // --ds4-fuse-attention
  add(createFuseHead());            // --ds4-fuse-head
  add(createSchedule());            // --ds4-schedule
}

void addPlanningPasses(OpPassManager &passes, ArrayRef<std::string> disabled) {
  // ds4-opt --ds4-assign-layouts
  addOptional(passes, disabled, createAssignLayouts());
  auto &functions = passes.nest<func::FuncOp>();
  functions.addPass(createPlanMemory()); // ds4-opt --ds4-plan-memory
}

void registerDs4Passes() {
  registerDs4GraphPasses();
  registerCSEPass();
  registerCanonicalizerPass();
  PassPipelineRegistration<>(
      "ds4-fuse", "model to fused",
      [](OpPassManager &passes) { addFusionPasses(passes); });
  PassPipelineRegistration<>(
      "ds4-plan", "fused to planned",
      [](OpPassManager &passes) { addPlanningPasses(passes); });
}

} // namespace ds4
