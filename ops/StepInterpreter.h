// StepInterpreter.h - one step of one phase: a value for every SSA value, one
// call of the oracle for every op. Used by Interpreter.cpp alone.
#ifndef DS4_OPS_STEPINTERPRETER_H
#define DS4_OPS_STEPINTERPRETER_H

#include "ir/Ds4Ops.h"
#include "ops/Interpreter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

#include <memory>

namespace ds4 {

class StepInterpreter {
public:
  StepInterpreter(Interpreter &model, const Step &step,
                  std::span<const int32_t> tokens)
      : model(model), step(step), tokens(tokens) {}

  Result<StepResult> run(mlir::func::FuncOp func);

private:
  /// What an SSA value stands for; one member is in use.
  struct Slot {
    std::shared_ptr<std::vector<float>> floats; ///< shared by reshapes
    std::vector<int32_t> ints;
    std::shared_ptr<ref::Q8> q8;
    ref::Weight weight;
    ref::State *state = nullptr;
    ref::Floats table; ///< rotary table or f32 books
    std::span<const uint8_t> int8Books;
  };

  ref::Rows rowsOf(ir::RowsAttr rows) const { return {rows.getRatio(), step}; }
  uint64_t tokenRows() const { return static_cast<uint64_t>(step.count); }
  uint64_t outputRows() const { return static_cast<uint64_t>(step.outputs); }

  // Operands.
  ref::Floats floats(mlir::Value value) const;
  ref::Ints ints(mlir::Value value) const;
  ref::Act act(mlir::Value value) const;
  ref::Weight weight(mlir::Value value) const;
  ref::Weight weight(mlir::Value value, mlir::Value books) const;
  ref::State &state(mlir::Value value) const;
  /// An f32 or i32 weight as numbers.
  ref::Floats floatWeight(mlir::Value value) const;
  ref::Ints intWeight(mlir::Value value) const;

  // Results: `rows` rows of the value's shape, zeroed.
  std::span<float> makeFloats(mlir::Value value, uint64_t rows);
  std::span<int32_t> makeInts(mlir::Value value, uint64_t rows);

  Status execute(mlir::Operation *op);
  Status checkSelection(mlir::Operation *op, ref::NanRow row) const;

  Status run(ir::WeightOp op);
  Status run(ir::BooksOp op);
  Status run(ir::RotationsOp op);
  Status run(ir::StateOp op);
  Status run(ir::RopeTableOp op);
  Status run(ir::ReshapeOp op);
  Status run(ir::EmbedOp op);
  Status run(ir::HcPreOp op);
  Status run(ir::HcPostOp op);
  Status run(ir::HeadCollapseOp op);
  Status run(ir::RmsNormOp op);
  Status run(ir::RotateOp op);
  Status run(ir::QuantizeOp op);
  Status run(ir::LinearOp op);
  Status run(ir::GroupedLinearOp op);
  Status run(ir::RopeOp op);
  Status run(ir::HadamardOp op);
  Status run(ir::SimulateOp op);
  Status run(ir::RoundRowOp op);
  Status run(ir::AppendOp op);
  Status run(ir::ApeAddOp op);
  Status run(ir::CompressOp op);
  Status run(ir::IndexScoreOp op);
  Status run(ir::TopKOp op);
  Status run(ir::AttendOp op);
  Status run(ir::RouteOp op);
  Status run(ir::HashRouteOp op);
  Status run(ir::GroupPairsOp op);
  Status run(ir::ExpertGateUpOp op);
  Status run(ir::SwigluOp op);
  Status run(ir::ExpertDownOp op);
  Status run(ir::CombineOp op);
  Status run(ir::TakeOutputsOp op);
  Status run(ir::ArgmaxOp op);
  Status run(ir::TraceOp op);
  Status run(ir::ObserveOp op);
  Status run(ir::LaunchOp op);
  Status run(mlir::func::ReturnOp op);

  Interpreter &model;
  const Step step;
  const std::span<const int32_t> tokens;
  llvm::DenseMap<mlir::Value, Slot> slots;
  StepResult result;
};

} // namespace ds4

#endif // DS4_OPS_STEPINTERPRETER_H
