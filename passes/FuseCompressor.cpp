// FuseCompressor.cpp - a compressor from its projections to its cache (see
// Passes.td).
#include "passes/Fusion.h"
#include "passes/Passes.h"

using namespace mlir;

namespace ds4 {

#define GEN_PASS_DEF_FUSECOMPRESSOR
#include "passes/Passes.h.inc"

using namespace ir;

namespace {

struct FuseCompressorPass : impl::FuseCompressorBase<FuseCompressorPass> {
  using FuseCompressorBase::FuseCompressorBase;

  static bool belongs(Operation *op) {
    return isa<ApeAddOp, CompressOp, AppendOp, RmsNormOp, RopeOp, HadamardOp,
               SimulateOp, RoundRowOp>(op);
  }

  void runOnOperation() override {
    Fusion fusion(explain);
    for (CompressOp compress : opsOf<CompressOp>(getOperation())) {
      // The launch of another compressor has taken it along.
      if (isa<LaunchOp>(compress->getParentOp()))
        continue;
      // With one token a step: all of it where the projections are.
      llvm::SetVector<Operation *> sources;
      if (rowCapacity(compress) == 1)
        for (Value input : {compress.getKv(), compress.getGate()})
          for (Operation *maker = makerOf(input); maker;
               maker = makerOf(maker->getOperand(0))) {
            sources.insert(maker);
            if (!isa<ApeAddOp>(maker))
              break;
          }
      SmallVector<Operation *> members(sources.getArrayRef());
      if (!members.empty()) {
        members.push_back(compress);
        fusion.absorb(members, belongs);
        if (fusion.fuse(members, "projections"))
          continue;
      }
      members.assign({compress});
      fusion.absorb(members, belongs);
      fusion.fuse(members, "compressor");
    }
  }
};

} // namespace

} // namespace ds4
