// ElementwiseEmitter.cpp - one case an op, one line of C++ a value.
#include "codegen/ElementwiseEmitter.h"

#include "codegen/KernelEntries.h"
#include "ir/Launch.h"

#include "llvm/ADT/TypeSwitch.h"

#include <fmt/format.h>

using namespace mlir;

namespace ds4::codegen {

using namespace ir;

/// Items of a row: values of the last dimension, or of the whole row if no
/// operand has another number of them a row.
static int64_t itemsOf(Operation *op) {
  return isa<SwigluOp>(op) ? rowValues(op) : dim(op->getResult(0), 1);
}

namespace {

/// Prints `run`, the loop over items of a tile that does `ops` in order.
class LoopPrinter {
public:
  explicit LoopPrinter(ArrayRef<Operation *> ops) : ops(ops) {}

  /// Sets text and arguments of the body.
  void print(KernelSpec &spec);

private:
  LogicalResult emit(Operation *op);
  std::string emitValue(SwigluOp op);
  std::string emitValue(ApeAddOp op);
  std::string emitValue(CombineOp op);

  /// Name of the argument that is `value`'s memory.
  std::string argument(Value value, bool written = false);
  /// The argument, set to its row of `values` values.
  std::string rowOf(Value value, int64_t values, bool written = false);
  /// Name of item i of `value`, which is loaded unless the loop makes it;
  /// `offset`: of the item 0 of a row.
  std::string item(Value value, int64_t offset = 0);
  /// Names the value of an expression.
  std::string name(const std::string &expression);

  ArrayRef<Operation *> ops;
  llvm::SmallVector<Value> args;
  llvm::DenseSet<Value> results;
  /// Names of items, by value and offset.
  llvm::DenseMap<std::pair<Value, int64_t>, std::string> known;
  std::string rows, body;
  unsigned values = 0;
};

} // namespace

std::string LoopPrinter::argument(Value value, bool written) {
  auto it = llvm::find(args, value);
  const auto number = std::distance(args.begin(), it);
  if (it == args.end())
    args.push_back(value);
  if (written)
    results.insert(value);
  return fmt::format("{}{}", written ? "out" : "in", number);
}

std::string LoopPrinter::rowOf(Value value, int64_t values, bool written) {
  const bool isNew = !llvm::is_contained(args, value);
  std::string name = argument(value, written);
  if (isNew)
    rows += fmt::format("  {} += static_cast<u64>(row) * {};\n", name, values);
  return name;
}

std::string LoopPrinter::name(const std::string &expression) {
  std::string name = fmt::format("v{}", values++);
  body += fmt::format("        const float {} = {};\n", name, expression);
  return name;
}

std::string LoopPrinter::item(Value value, int64_t offset) {
  std::string &item = known[{value, offset}];
  if (item.empty()) {
    const std::string row = rowOf(value, rowElements(value));
    item = name(offset ? fmt::format("{}[{} + i]", row, offset)
                       : fmt::format("{}[i]", row));
  }
  return item;
}

std::string LoopPrinter::emitValue(SwigluOp op) {
  const std::string gate = item(op.getGate()), up = item(op.getUp());
  const std::string limit =
      fmt::format("{:a}f", op.getLimit().convertToFloat());
  const std::string g = name(fmt::format("{0} > {1} ? {1} : {0}", gate, limit));
  const std::string u =
      name(fmt::format("{0} > {1} ? {1} : {0} < -{1} ? -{1} : {0}", up, limit));
  return name(fmt::format("({0} * sigmoid_f32({0})) * {1}", g, u));
}

std::string LoopPrinter::emitValue(ApeAddOp op) {
  const std::string gate = item(op.getGate());
  const WeightType ape = op.getApe().getType();
  const std::string row = argument(op.getApe());
  rows += fmt::format("  {} += row_position(kRatio, step, row) % {} * {};\n",
                      row, ape.getShape().front(), ape.getDeviceRowBytes());
  return name(fmt::format("{} + weight_at({}, i, nullptr)", gate, row));
}

std::string LoopPrinter::emitValue(CombineOp op) {
  const int64_t used = dim(op.getWeights(), 1), width = dim(op.getY(), 2);
  std::string sum;
  for (int64_t i = 0; i < used; ++i) {
    const std::string y = item(op.getY(), i * width);
    const std::string weight =
        fmt::format("{}[{}]", rowOf(op.getWeights(), used), i);
    sum = name(i ? fmt::format("fma_f32({}, {}, {})", weight, y, sum)
                 : fmt::format("{} * {}", weight, y));
  }
  return name(fmt::format("{} + {}", sum, item(op.getShared())));
}

LogicalResult LoopPrinter::emit(Operation *op) {
  const std::string value =
      llvm::TypeSwitch<Operation *, std::string>(op)
          .Case<SwigluOp, ApeAddOp, CombineOp>(
              [&](auto elementwise) { return emitValue(elementwise); })
          .Default(std::string());
  if (value.empty())
    return op->emitOpError() << "is elementwise, but codegen/"
                                "ElementwiseEmitter.cpp has no case for it";
  known[{op->getResult(0), 0}] = value;
  return success();
}

void LoopPrinter::print(KernelSpec &spec) {
  // What only this loop reads stays in registers.
  llvm::SmallVector<Value> stored;
  for (Operation *op : ops) {
    if (failed(emit(op)))
      return;
    const Value result = op->getResult(0);
    if (result.use_empty() ||
        !llvm::all_of(result.getUsers(), [&](Operation *user) {
          return llvm::is_contained(ops, user);
        }))
      stored.push_back(result);
  }
  std::string stores;
  for (const auto [i, value] : llvm::enumerate(stored)) {
    body += fmt::format("        out[{}] = {};\n", i, known.at({value, 0}));
    stores += fmt::format("        {}[i] = out[{}];\n",
                          rowOf(value, rowElements(value), true), i);
  }
  std::string params;
  for (Value value : args)
    params += fmt::format("{} *{}, ",
                          results.contains(value)            ? "float"
                          : isa<WeightType>(value.getType()) ? "const u8"
                                                             : "const float",
                          argument(value, results.contains(value)));
  const size_t count = stored.size();
  spec.text = fmt::format(
      "DS4_DEVICE void run(u32 block, u32 row, {}const Step *step) {{\n"
      "  if (row >= row_count(kRatio, step))\n"
      "    return;\n"
      "{}"
      "  each_item<{}>(\n"
      "      block, {},\n"
      "      [&](u32 i, float (&out)[{}]) {{\n"
      "{}"
      "      }},\n"
      "      [&](u32 i, const float (&out)[{}]) {{\n"
      "{}"
      "      }});\n"
      "}}\n",
      params, rows, count, itemsOf(ops.front()), count, body, count, stores);
  spec.args = args;
}

/// Launch of an elementwise op.
static LogicalResult describe(Operation *op, KernelSpec &spec) {
  launchElements(spec, itemsOf(op));
  // A row of another operand may be longer than the result's.
  spec.local = true;
  for (Value operand : op->getOperands())
    if (auto weight = dyn_cast<WeightType>(operand.getType()))
      spec.format = weight.getFormat();
  spec.elementwise = {op};
  LoopPrinter(spec.elementwise).print(spec);
  return success(!spec.text.empty());
}

void addElementwiseKernels(KernelTable &kernels) {
  const auto entry = [](auto op, KernelSpec &spec) {
    return describe(op, spec);
  };
  kernels.add<SwigluOp>(entry);
  kernels.add<ApeAddOp>(entry);
  kernels.add<CombineOp>(entry);
}

bool canJoin(const KernelSpec &body, const KernelSpec &next) {
  if (body.elementwise.empty() || next.elementwise.empty() ||
      itemsOf(body.elementwise.front()) != itemsOf(next.elementwise.front()) ||
      body.block != next.block || body.tile != next.tile ||
      body.gridX != next.gridX || body.ratio != next.ratio ||
      (body.format && next.format && body.format != next.format))
    return false;
  // A view may cut rows into other items.
  bool reads = false;
  for (Operation *op : next.elementwise)
    for (Value operand : op->getOperands())
      if (Operation *maker = storageOf(operand).getDefiningOp();
          llvm::is_contained(body.elementwise, maker)) {
        if (operand.getDefiningOp() != maker)
          return false;
        reads = true;
      }
  return reads;
}

void join(KernelSpec &body, const KernelSpec &next) {
  body.elementwise.append(next.elementwise.begin(), next.elementwise.end());
  body.kernel += " + " + next.kernel;
  if (next.format)
    body.format = next.format;
  LoopPrinter(body.elementwise).print(body);
}

} // namespace ds4::codegen
