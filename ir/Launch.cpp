// Launch.cpp - rules of ds4.launch that need more than one op, and its
// verifier.
#include "ir/Launch.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace ds4::ir;

int64_t ds4::ir::rowRatio(Operation *op) {
  if (auto rows = op->getAttrOfType<RowsAttr>("rows"))
    return rows.getRatio();
  return llvm::TypeSwitch<Operation *, int64_t>(op)
      .Case<ArgmaxOp, HeadCollapseOp, TakeOutputsOp>([](auto) { return 0; })
      .Case([](CompressOp compress) { return compress.getRatio(); })
      .Default(int64_t(1)); // tokens
}

/// What an op writes: a result or, of an op without, its first operand.
static ArrayRef<int64_t> writtenShape(Operation *op) {
  return activationShape(op->getNumResults() ? op->getResult(0).getType()
                                             : op->getOperand(0).getType());
}

int64_t ds4::ir::rowCapacity(Operation *op) { return writtenShape(op).front(); }

int64_t ds4::ir::rowValues(Operation *op) {
  int64_t values = 1;
  for (int64_t size : writtenShape(op).drop_front())
    values *= size;
  return values;
}

StringRef ds4::ir::targetOf(Operation *op) {
  auto module = op->getParentOfType<ModuleOp>();
  auto profile =
      module ? module->getAttrOfType<DictionaryAttr>("ds4.profile") : nullptr;
  auto target = profile ? profile.getAs<StringAttr>("target") : nullptr;
  return target ? target.getValue() : "";
}

bool ds4::ir::isForGpu(Operation *op) {
  const StringRef target = targetOf(op);
  return !target.empty() && target != "host";
}

bool ds4::ir::isSelection(Operation *op) {
  return isa<TopKOp, RouteOp, HashRouteOp, ArgmaxOp>(op);
}

int64_t ds4::ir::columnsOf(Operation *op) {
  auto columns = op->getAttrOfType<IntegerAttr>(kColumnsAttr);
  return columns ? columns.getInt() : 1;
}

StringRef ds4::ir::whyAlone(Operation *op) {
  if (columnsOf(op) > kMostColumns)
    return "does tiles of rows";
  const bool step = llvm::TypeSwitch<Operation *, bool>(op)
                        .Case([](GroupPairsOp) { return true; })
                        .Case<ExpertGateUpOp, ExpertDownOp>([](auto product) {
                          return product.getPairs() != nullptr;
                        })
                        .Default(false);
  return step ? "takes a step as a whole" : "";
}

/// Whether weights have a minimum besides levels and scales.
static bool hasMinimum(ds4::WeightFormat format) {
  using enum ds4::WeightFormat;
  return format == q4_1 || format == q5_1 || format == q2_0_rocmfp2_affine;
}

bool ds4::ir::canUseTiles(Operation *op) {
  if (!isForGpu(op) ||
      !isa<LinearOp, GroupedLinearOp, ExpertGateUpOp, ExpertDownOp>(op))
    return false;
  const bool int8 = isa<Q8Type>(op->getOperand(0).getType());
  if (!int8 && !isa<LinearOp, GroupedLinearOp>(op))
    return false;
  return llvm::all_of(op->getOperandTypes(), [&](Type type) {
    auto weight = dyn_cast<WeightType>(type);
    if (!weight)
      return true;
    const ds4::WeightFormatInfo &info = weightFormatInfo(weight.getFormat());
    return weight.getRowElements() % 256 == 0 &&
           (!int8 || (info.quantised && info.blockElements == 32 &&
                      !hasMinimum(info.format)));
  });
}

bool ds4::ir::shareState(Operation *a, Operation *b) {
  if (!isa<AppendOp>(a) && !isa<AppendOp>(b))
    return false;
  for (Value one : a->getOperands())
    if (auto state = one.getDefiningOp<StateOp>())
      for (Value other : b->getOperands())
        if (auto same = other.getDefiningOp<StateOp>())
          if (state.getName() == same.getName())
            return true;
  return false;
}

SmallVector<Operation *>
ds4::ir::producersAmong(const llvm::SetVector<Operation *> &ops,
                        Operation *op) {
  SmallVector<Operation *> found;
  for (Value operand : op->getOperands()) {
    Operation *producer = storageOf(operand).getDefiningOp();
    if (producer && ops.contains(producer))
      found.push_back(producer);
  }
  return found;
}

Value ds4::ir::overwritable(Operation *op) {
  if (!op->hasTrait<Elementwise>() && !isa<RmsNormOp>(op))
    return {};
  for (Value operand : op->getOperands())
    if (operand.getType() == op->getResult(0).getType())
      return operand;
  return {};
}

std::string ds4::ir::whyNoLaunch(const llvm::SetVector<Operation *> &ops) {
  auto name = [](Operation *op) { return op->getName().stripDialect().str(); };
  int64_t rows = 1;
  unsigned selections = 0;
  for (Operation *op : ops) {
    rows = std::max(rows, rowCapacity(op));
    selections += isSelection(op);
  }
  if (selections > 1)
    return "two selections: a NaN of one could not be told from the other's";
  for (Operation *op : ops)
    if (StringRef why = whyAlone(op); ops.size() > 1 && !why.empty())
      return name(op) + " " + why.str();
  for (Operation *op : ops) {
    const SmallVector<Operation *> made = producersAmong(ops, op);
    for (Operation *producer : made)
      if (rows > 1 && rowRatio(producer) != rowRatio(op))
        return name(op) + " has other rows than " + name(producer) +
               ", which it reads";
    for (Operation *other : ops) {
      if (other == op || !shareState(op, other))
        continue;
      if (rows > 1)
        return name(op) + " and " + name(other) +
               " share a cache, and rows of a step run side by side";
      if (made.empty())
        return name(op) + " and " + name(other) +
               " share a cache and run side by side";
    }
  }
  return {};
}

Value LaunchOp::getYielded(Value result) {
  auto yield = cast<YieldOp>(getBody().front().getTerminator());
  return yield.getValues()[cast<OpResult>(result).getResultNumber()];
}

LogicalResult LaunchOp::verify() {
  if (getName().empty() || llvm::isDigit(getName().front()) ||
      !llvm::all_of(getName(), [](char c) {
        return llvm::isAlnum(c) || c == '_';
      })) // launch_c3
    return emitOpError() << "'" << getName() << "' is no name for a kernel";
  llvm::SetVector<Operation *> ops;
  for (Operation &op : getBody().front().without_terminator()) {
    if (!isa_and_nonnull<Ds4Dialect>(op.getDialect()) ||
        isa<WeightOp, BooksOp, RotationsOp, StateOp, RopeTableOp, TraceOp,
            ObserveOp, LaunchOp>(op)) // launch_c1
      return op.emitOpError() << "has no kernel and cannot be in a launch";
    if (!isFree(&op))
      ops.insert(&op);
  }
  auto yield = cast<YieldOp>(getBody().front().getTerminator());
  if (yield.getValues().getTypes() != getResultTypes()) // launch_c2
    return emitOpError() << "yields " << yield.getValues().size()
                         << " values whose types are not those of its "
                         << getNumResults() << " results";
  for (Value value : yield.getValues())
    if (value.getParentRegion() != &getBody()) // launch_c2
      return emitOpError() << "yields a value that is made outside";
  if (std::string why = whyNoLaunch(ops); !why.empty()) // launch_c4
    return emitOpError() << "cannot be one launch: " << why;
  return success();
}
