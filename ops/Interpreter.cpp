// Interpreter.cpp - the frame of a step and the parts of a model that outlive
// it: weights, states, tables. What each op does with them is in
// StepInterpreter.cpp.
#include "ops/Interpreter.h"

#include "ir/Ds4Ops.h"
#include "ops/StepInterpreter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

using namespace mlir;

namespace ds4 {

using namespace ir;

/// The file has the tensor in the shape and format that the graph was built
/// for.
static Status checkWeight(WeightOp op, const Gguf &gguf) {
  const std::string name = op.getName().str();
  const GgufTensor *tensor = gguf.findTensor(name);
  if (!tensor)
    return invalidInput(fmt::format(
        "{} has no tensor \"{}\", which the graph reads", gguf.path(), name));
  const WeightType type = op.getType();
  const std::vector<int64_t> dims(tensor->dims.rbegin(), tensor->dims.rend());
  if (!weightFormatMayBe(type.getFormat(), tensor->typeId) ||
      llvm::ArrayRef(dims) != type.getShape())
    return invalidInput(fmt::format(
        "tensor \"{}\" of {} is {} {}, the graph was built for {} {}", name,
        gguf.path(), fmt::join(dims, "x"),
        weightFormatInfo(tensor->format()).name,
        fmt::join(type.getShape(), "x"),
        weightFormatInfo(type.getFormat()).name));
  return Status::ok();
}

Result<std::unique_ptr<Interpreter>> Interpreter::open(ModuleOp module,
                                                       const Gguf &gguf) {
  std::unique_ptr<Interpreter> result(new Interpreter(module, gguf));
  DS4_TRY(result->check());
  return result;
}

Status Interpreter::check() {
  for (auto func : module.getOps<func::FuncOp>()) {
    const auto isPhase = [](FunctionType type) {
      if (type.getNumInputs() != 1 || type.getNumResults() != 2)
        return false;
      const auto tokens = dyn_cast<RankedTensorType>(type.getInput(0));
      const auto logits = dyn_cast<RankedTensorType>(type.getResult(0));
      return tokens && logits && tokens.getRank() == 1 && logits.getRank() == 2;
    };
    const FunctionType type = func.getFunctionType();
    if (!isPhase(type))
      return invalidInput(fmt::format("function @{} is no phase: a phase takes "
                                      "tokens and gives logits and argmax",
                                      std::string_view(func.getName())));
    Function function;
    function.name = func.getName().str();
    function.capacity = static_cast<uint32_t>(
        cast<RankedTensorType>(type.getInput(0)).getDimSize(0));
    function.outputs = static_cast<uint32_t>(
        cast<RankedTensorType>(type.getResult(0)).getDimSize(0));
    functions.push_back(std::move(function));
  }
  if (functions.empty())
    return invalidInput("the module has no function");

  Status status;
  bool adaptive = false;
  Rotations rotations = Rotations::refuse;
  module.walk([&](Operation *op) {
    if (auto weight = dyn_cast<WeightOp>(op))
      status = checkWeight(weight, gguf);
    if (auto table = dyn_cast<RopeTableOp>(op))
      context = std::min<uint64_t>(
          context, cast<RankedTensorType>(table.getType()).getDimSize(0));
    adaptive |= isa<BooksOp>(op);
    if (isa<RotationsOp>(op))
      rotations = Rotations::accept;
    return status ? WalkResult::advance() : WalkResult::interrupt();
  });
  DS4_TRY(status);
  if (adaptive) {
    DS4_ASSIGN(decodeTables, readDecodeTables(gguf, rotations));
  }
  return Status::ok();
}

Result<std::span<const uint8_t>>
Interpreter::weightBytes(const std::string &name) {
  std::vector<uint8_t> &bytes = weights[name];
  if (bytes.empty()) {
    const GgufTensor &tensor = *gguf.findTensor(name);
    bytes.resize(tensor.bytes);
    std::ifstream file(gguf.path(), std::ios::binary);
    file.seekg(static_cast<std::streamoff>(tensor.fileOffset));
    file.read(reinterpret_cast<char *>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    if (!file)
      return ioError(fmt::format("cannot read tensor \"{}\" at offset {} of {}",
                                 name, tensor.fileOffset, gguf.path()));
  }
  return std::span<const uint8_t>(bytes);
}

Result<StepResult> Interpreter::interpretStep(std::string_view phase,
                                              std::span<const int32_t> tokens,
                                              uint32_t outputs) {
  const auto it = std::ranges::find(functions, phase, &Function::name);
  if (it == functions.end())
    return invalidInput(fmt::format("the module has no function @{}", phase));
  if (tokens.empty() || tokens.size() > it->capacity || outputs > it->outputs ||
      outputs > tokens.size())
    return invalidInput(fmt::format(
        "a step of @{} takes 1 to {} tokens and gives at most {} rows of "
        "logits, asked: {} and {}",
        phase, it->capacity, it->outputs, tokens.size(), outputs));
  if (tokens.size() > context - next)
    return invalidInput(fmt::format(
        "context length exceeded: {} tokens at position {}, limit {}",
        tokens.size(), next, context));
  const Step step{static_cast<int32_t>(next),
                  static_cast<int32_t>(tokens.size()),
                  static_cast<int32_t>(outputs), 0};
  DS4_ASSIGN(StepResult result,
             StepInterpreter(*this, step, tokens)
                 .run(module.lookupSymbol<func::FuncOp>(it->name)));
  next += tokens.size();
  return result;
}

void Interpreter::rollback(uint64_t position) {
  assert(position <= next && "rollback goes back");
  next = position;
}

const ref::State *Interpreter::state(std::string_view name) const {
  const auto it = states.find(name);
  return it == states.end() ? nullptr : &it->second;
}

} // namespace ds4
