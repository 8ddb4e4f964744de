// Interpreter.h - runs the phases of a module with the oracle (Reference.h)
// over the weights of a GGUF file: what the engine must reproduce bit for bit.
// For tests and ds4-interp; no kernel, no plan, no device.
#ifndef DS4_OPS_INTERPRETER_H
#define DS4_OPS_INTERPRETER_H

#include "ops/Reference.h"
#include "runtime/DecodeTables.h"
#include "runtime/Gguf.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ds4 {

/// What one step gave.
struct StepResult {
  std::vector<float> logits;   ///< [outputs, vocab]
  std::vector<int32_t> argmax; ///< [outputs]
  /// Activations of ds4.trace ops by name: the rows of the step.
  std::map<std::string, std::vector<float>> traces;
};

/// One sequence of one model. States live between steps.
class Interpreter {
public:
  /// `module` and `gguf` must outlive the interpreter. Errors: a weight that
  /// the file does not have in this shape and format; decode tables that are
  /// refused; a function that is no phase.
  static Result<std::unique_ptr<Interpreter>> open(mlir::ModuleOp module,
                                                   const Gguf &gguf);

  /// Name, capacity and outputs of the module's functions, in their order.
  std::span<const Function> phases() const { return functions; }

  /// Runs function `phase` for the next tokens of the sequence, with logits of
  /// the last `outputs` of them. Errors: more tokens or outputs than the phase
  /// takes, or than positions are left; a token beyond the vocabulary; a NaN
  /// in a selection (names op, layer and position).
  Result<StepResult> interpretStep(std::string_view phase,
                                   std::span<const int32_t> tokens,
                                   uint32_t outputs);

  /// Position of the next token.
  uint64_t position() const { return next; }
  /// Forgets the tokens from `position` on.
  void rollback(uint64_t position);
  /// A cache by its name, null if no step has touched it.
  const ref::State *state(std::string_view name) const;

private:
  friend class StepInterpreter;
  Interpreter(mlir::ModuleOp module, const Gguf &gguf)
      : module(module), gguf(gguf) {}
  Status check();
  /// Bytes of a tensor, read on first use.
  Result<std::span<const uint8_t>> weightBytes(const std::string &name);

  mlir::ModuleOp module;
  const Gguf &gguf;
  std::vector<Function> functions;
  DecodeTables decodeTables;
  std::map<std::string, std::vector<uint8_t>> int8Books; ///< made on first use
  std::map<std::string, std::vector<uint8_t>> weights;
  std::map<std::string, std::vector<float>> ropeTables;
  std::map<std::string, ref::State, std::less<>> states;
  uint64_t next = 0;
  uint64_t context = UINT64_MAX; ///< positions of the shortest rotary table
};

} // namespace ds4

#endif // DS4_OPS_INTERPRETER_H
