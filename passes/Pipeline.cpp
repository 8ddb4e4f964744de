// Pipeline.cpp - the order of all passes on one page; beside each, how to run
// it alone.
#include "passes/Pipeline.h"

#include "passes/Passes.h"

#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace ds4 {

void addFusionPasses(OpPassManager &passes) {
  passes.addPass(createCSEPass()); // ds4-opt --cse
  auto &functions = passes.nest<func::FuncOp>();
  functions.addPass(createFuseHyperConnection()); // --ds4-fuse-hyper-connection
  functions.addPass(createFuseProjections());     // --ds4-fuse-projections
  functions.addPass(createFuseCompressor());      // --ds4-fuse-compressor
  functions.addPass(createFuseRouting());         // --ds4-fuse-routing
  functions.addPass(createFuseExperts());         // --ds4-fuse-experts
  functions.addPass(createFuseAttention());       // --ds4-fuse-attention
  functions.addPass(createFuseHead());            // --ds4-fuse-head
  functions.addPass(createSchedule());            // --ds4-schedule
}

void addPlanningPasses(OpPassManager &passes) {
  auto &functions = passes.nest<func::FuncOp>();
  functions.addPass(createPlanMemory()); // ds4-opt --ds4-plan-memory
}

void registerDs4Passes() {
  registerDs4GraphPasses();
  registerCSEPass();
  registerCanonicalizerPass();
  PassPipelineRegistration<>("ds4-fuse", "model to fused", addFusionPasses);
  PassPipelineRegistration<>("ds4-plan", "fused to planned", addPlanningPasses);
}

} // namespace ds4
