// PlanWriter.cpp - ops to launches, values to arguments, leaves to tables of
// the plan. Leaves are collected when a launch uses them, so that a weight that
// no kernel reads is not loaded.
#include "codegen/PlanWriter.h"

#include "codegen/LaunchBytes.h"
#include "codegen/LaunchSpec.h"
#include "ir/Launch.h"
#include "passes/Passes.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

using namespace mlir;

namespace ds4::codegen {

using namespace ir;

namespace {

class PlanWriter {
public:
  LogicalResult writeFunction(func::FuncOp op);
  EmittedPlan result;

private:
  LogicalResult writeOp(Operation *op, Function &function);
  LogicalResult writeLaunch(Operation *op, Function &function);
  LogicalResult writeLaunch(Operation *op, const LaunchSpec &spec,
                            Function &function);
  LogicalResult writeTrace(TraceOp op, Function &function);
  LogicalResult writeObserve(ObserveOp op, Function &function);
  LogicalResult writeReturn(func::ReturnOp op, Function &function);
  FailureOr<Arg> argOf(Value value, Operation *user);
  LogicalResult addUnit(Operation *op, Unit unit);

  LogicalResult addLeaf(WeightOp op);
  LogicalResult addLeaf(BooksOp op);
  LogicalResult addLeaf(RotationsOp op);
  LogicalResult addLeaf(StateOp op);
  LogicalResult addLeaf(RopeTableOp op);
  template <typename Desc>
  LogicalResult add(Operation *op, std::vector<Desc> &list,
                    std::string Desc::*name, Desc desc);

  /// Launch that made a value, of the function being written.
  llvm::DenseMap<Operation *, uint32_t> launchOf;
  uint64_t valueBytes = 0; ///< of the arena, without scratch memory
  std::map<std::string, size_t> unitIndex;
  /// Every leaf's type and attributes by name: two leaves of one kind and name
  /// must agree.
  std::map<std::pair<std::string, std::string>, Operation *> leaves;
};

} // namespace

/// Adds a leaf unless it is there; refuses one that differs from its namesake.
template <typename Desc>
LogicalResult PlanWriter::add(Operation *op, std::vector<Desc> &list,
                              std::string Desc::*name, Desc desc) {
  auto [it, isNew] =
      leaves.try_emplace({op->getName().getStringRef().str(), desc.*name}, op);
  if (isNew) {
    list.push_back(std::move(desc));
    return success();
  }
  if (it->second->getResult(0).getType() == op->getResult(0).getType() &&
      it->second->getPropertiesAsAttribute() == op->getPropertiesAsAttribute())
    return success();
  InFlightDiagnostic diagnostic =
      op->emitOpError() << "'" << desc.*name
                        << "' has another type or other attributes elsewhere";
  diagnostic.attachNote(it->second->getLoc()) << "here";
  return diagnostic;
}

LogicalResult PlanWriter::addLeaf(WeightOp op) {
  WeightType type = op.getType();
  WeightDesc desc;
  desc.name = op.getName();
  desc.format = type.getFormat();
  desc.layout = type.getLayout();
  desc.shape.assign(type.getShape().begin(), type.getShape().end());
  desc.bytes = type.getBytes();
  desc.slicesPerToken = slicesPerToken(op);
  // Entries of a routing table are expert numbers.
  for (Operation *user : op->getUsers())
    if (auto route = dyn_cast<HashRouteOp>(user))
      desc.valueLimit = activationShape(route.getLogits().getType())[1];
  return add(op, result.plan.weights, &WeightDesc::name, std::move(desc));
}

LogicalResult PlanWriter::addLeaf(BooksOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  WeightType weight;
  for (Operation *user : op->getUsers())
    llvm::TypeSwitch<Operation *>(user)
        .Case<LinearOp, GroupedLinearOp, ExpertDownOp>(
            [&](auto product) { weight = product.getWeight().getType(); })
        .Case(
            [&](ExpertGateUpOp gateUp) { weight = gateUp.getUp().getType(); });
  if (!weight)
    return op.emitOpError() << "needs a product that uses it";
  BooksDesc desc;
  desc.weight = op.getName();
  desc.format = weight.getFormat();
  desc.experts = type.getDimSize(0);
  desc.int8 = type.getElementType().isInteger(8);
  return add(op, result.plan.books, &BooksDesc::weight, std::move(desc));
}

LogicalResult PlanWriter::addLeaf(RotationsOp op) {
  RotationsDesc desc;
  desc.weight = op.getName();
  desc.experts = activationShape(op.getType()).front();
  return add(op, result.plan.rotations, &RotationsDesc::weight,
             std::move(desc));
}

LogicalResult PlanWriter::addLeaf(StateOp op) {
  StateType type = op.getType();
  StateDesc desc;
  desc.name = op.getName();
  desc.rows = type.getRows();
  desc.rowBytes = type.getRowBytes();
  desc.storage = stringifyRowStorage(type.getStorage());
  desc.width = type.getWidth();
  desc.ratio = rowRatio(op);
  return add(op, result.plan.states, &StateDesc::name, std::move(desc));
}

LogicalResult PlanWriter::addLeaf(RopeTableOp op) {
  auto shape = cast<RankedTensorType>(op.getType()).getShape();
  RopeTable desc;
  desc.name = op.getName();
  desc.positions = shape[0];
  desc.dims = shape[1];
  desc.base = op.getBase().convertToDouble();
  desc.factor = op.getFactor().convertToDouble();
  desc.original = op.getOriginal();
  desc.betaFast = op.getBetaFast().convertToDouble();
  desc.betaSlow = op.getBetaSlow().convertToDouble();
  return add(op, result.plan.tables, &RopeTable::name, std::move(desc));
}

/// Where `user` finds `value`.
FailureOr<Arg> PlanWriter::argOf(Value value, Operation *user) {
  if (!value)
    return Arg{ArgKind::null, {}, 0};
  value = storageOf(value);
  if (isa<BlockArgument>(value))
    return Arg{ArgKind::tokens, {}, 0};
  Operation *op = value.getDefiningOp();
  auto leaf = [&](auto leafOp, ArgKind kind) -> FailureOr<Arg> {
    if (failed(addLeaf(leafOp)))
      return failure();
    return Arg{kind, leafOp.getName().str(), 0};
  };
  return llvm::TypeSwitch<Operation *, FailureOr<Arg>>(op)
      .Case([&](WeightOp weight) { return leaf(weight, ArgKind::weight); })
      .Case([&](BooksOp books) { return leaf(books, ArgKind::books); })
      .Case([&](RotationsOp rotations) {
        return leaf(rotations, ArgKind::rotations);
      })
      .Case([&](StateOp state) { return leaf(state, ArgKind::state); })
      .Case([&](RopeTableOp table) { return leaf(table, ArgKind::table); })
      .Default([&](Operation *) -> FailureOr<Arg> {
        auto offsets = op->getAttrOfType<DenseI64ArrayAttr>(kOffsetsAttr);
        unsigned number = cast<OpResult>(value).getResultNumber();
        if (!offsets || number >= offsets.size())
          return op->emitOpError()
                 << "has no " << kOffsetsAttr << ": run ds4-plan-memory first";
        return Arg{ArgKind::arena, {}, static_cast<uint64_t>(offsets[number])};
      });
}

LogicalResult PlanWriter::addUnit(Operation *op, Unit unit) {
  auto [it, isNew] = unitIndex.try_emplace(unit.symbol, result.units.size());
  if (!isNew && result.units[it->second].text != unit.text)
    return op->emitOpError() << "kernel symbol " << unit.symbol
                             << " stands for two texts: its hash collides";
  if (isNew)
    result.units.push_back(std::move(unit));
  return success();
}

static int layerOf(Operation *op) {
  auto layer = op->getAttrOfType<IntegerAttr>(kLayerAttr);
  return layer ? static_cast<int>(layer.getInt()) : -1;
}

LogicalResult PlanWriter::writeLaunch(Operation *op, Function &function) {
  FailureOr<LaunchSpec> spec = launchFor(op);
  if (failed(spec) ||
      (spec->before && failed(writeLaunch(op, *spec->before, function))))
    return failure();
  return writeLaunch(op, *spec, function);
}

LogicalResult PlanWriter::writeLaunch(Operation *op, const LaunchSpec &spec,
                                      Function &function) {
  Unit unit = emitUnit(spec);
  Launch launch;
  launch.kernel = unit.symbol;
  launch.label = spec.name;
  if (spec.selection)
    launch.selection = spec.selection->getName().stripDialect();
  launch.layer = layerOf(op);
  launch.grid = {spec.gridX, spec.gridY};
  launch.block = spec.threads;
  launch.ratio = spec.ratio;
  launch.columns = spec.columns;
  launch.sharedBytes = spec.sharedBytes;
  for (Value value : spec.args) {
    FailureOr<Arg> arg = argOf(value, op);
    if (failed(arg))
      return failure();
    launch.args.push_back(std::move(*arg));
    addArgumentBytes(op, value, launch);
  }
  const uint32_t number = function.launches.size();
  if (spec.tickets) {
    launch.args.push_back(
        {ArgKind::tickets, {}, function.tickets * sizeof(uint32_t)});
    function.tickets += spec.tickets * spec.gridY;
  }
  // Launches run one after another: all have one piece of scratch memory,
  // behind the values; of two that belong together the second finds there what
  // the first has left.
  if (spec.scratchBytes) {
    launch.args.push_back({ArgKind::arena, {}, valueBytes});
    function.arenaBytes =
        std::max(function.arenaBytes, valueBytes + spec.scratchBytes);
  }
  if (spec.selection)
    launch.args.push_back({ArgKind::status, {}, number * sizeof(StepStatus)});
  launch.args.push_back({ArgKind::step, {}, 0});
  op->walk([&](Operation *inner) { launchOf[inner] = number; });
  function.launches.push_back(std::move(launch));
  return addUnit(op, std::move(unit));
}

LogicalResult PlanWriter::writeTrace(TraceOp op, Function &function) {
  Value source = storageOf(op.getX());
  auto launch = launchOf.find(source.getDefiningOp());
  if (launch == launchOf.end())
    return op.emitOpError() << "traces a value that no kernel makes";
  FailureOr<Arg> arg = argOf(source, op);
  if (failed(arg))
    return failure();
  auto shape = activationShape(op.getX().getType());
  TracePoint trace;
  trace.name = op.getName();
  trace.afterLaunch = launch->second;
  trace.source = std::move(*arg);
  trace.rowElements = 1;
  for (int64_t size : shape.drop_front())
    trace.rowElements *= size;
  trace.ratio = rowRatio(op);
  function.traces.push_back(std::move(trace));
  return success();
}

LogicalResult PlanWriter::writeObserve(ObserveOp op, Function &function) {
  const WeightType weight = op.getWeight().getType();
  Observation observation;
  observation.width = weight.getRowElements();
  observation.ratio = rowRatio(op);
  observation.rowElements = 1;
  for (int64_t size : activationShape(op.getX().getType()).drop_front())
    observation.rowElements *= size;
  if (op.getExperts()) {
    observation.experts = weight.getShape().front();
    observation.used = activationShape(op.getExperts().getType()).back();
  }
  // Complete once the later of the two has been made.
  for (Value value : {op.getX(), op.getExperts()}) {
    if (!value)
      continue;
    auto launch = launchOf.find(storageOf(value).getDefiningOp());
    if (launch == launchOf.end())
      return op.emitOpError() << "observes a value that no kernel makes";
    observation.afterLaunch = std::max(observation.afterLaunch, launch->second);
  }
  FailureOr<Arg> named = argOf(op.getWeight(), op);
  FailureOr<Arg> source = argOf(op.getX(), op);
  FailureOr<Arg> chosen = argOf(op.getExperts(), op);
  if (failed(named) || failed(source) || failed(chosen))
    return failure();
  observation.weight = named->name;
  observation.source = std::move(*source);
  observation.chosen = std::move(*chosen);
  function.observations.push_back(std::move(observation));
  return success();
}

LogicalResult PlanWriter::writeReturn(func::ReturnOp op, Function &function) {
  if (op.getNumOperands() != 2)
    return op.emitOpError() << "must return logits and argmax, not "
                            << op.getNumOperands() << " values";
  FailureOr<Arg> logits = argOf(op.getOperand(0), op);
  FailureOr<Arg> argmax = argOf(op.getOperand(1), op);
  if (failed(logits) || failed(argmax))
    return failure();
  if (logits->kind != ArgKind::arena || argmax->kind != ArgKind::arena)
    return op.emitOpError() << "returns a value that no kernel makes";
  function.logits = *logits;
  function.argmax = *argmax;
  function.outputs = activationShape(op.getOperand(0).getType())[0];
  return success();
}

LogicalResult PlanWriter::writeOp(Operation *op, Function &function) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<WeightOp, BooksOp, RotationsOp, StateOp, RopeTableOp, ReshapeOp>(
          [](auto) { return success(); })
      .Case([&](TraceOp trace) { return writeTrace(trace, function); })
      .Case([&](ObserveOp observe) { return writeObserve(observe, function); })
      .Case([&](func::ReturnOp ret) { return writeReturn(ret, function); })
      .Default([&](Operation *) { return writeLaunch(op, function); });
}

LogicalResult PlanWriter::writeFunction(func::FuncOp op) {
  auto arenaBytes = op->getAttrOfType<IntegerAttr>(kArenaBytesAttr);
  if (!arenaBytes)
    return op.emitOpError()
           << "has no " << kArenaBytesAttr << ": run ds4-plan-memory first";
  if (op.getNumArguments() != 1)
    return op.emitOpError() << "must take the tokens and nothing else";
  Function function;
  function.name = op.getName();
  function.capacity = activationShape(op.getArgument(0).getType())[0];
  function.arenaBytes = arenaBytes.getInt();
  valueBytes = llvm::alignTo(function.arenaBytes, 256);
  launchOf.clear();
  for (Operation &inner : op.front())
    if (failed(writeOp(&inner, function)))
      return failure();
  // The runtime copies traces while it walks the launches.
  std::stable_sort(function.traces.begin(), function.traces.end(),
                   [](const TracePoint &a, const TracePoint &b) {
                     return a.afterLaunch < b.afterLaunch;
                   });
  result.plan.functions.push_back(std::move(function));
  return success();
}

FailureOr<EmittedPlan> emitPlan(ModuleOp module) {
  PlanWriter writer;
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    if (failed(writer.writeFunction(function)))
      return failure();
  if (writer.result.plan.functions.empty())
    return module.emitOpError() << "has no function";
  return std::move(writer.result);
}

FailureOr<Manifest> emitManifest(ModuleOp module) {
  auto name = module->getAttrOfType<StringAttr>("ds4.model_name");
  auto fingerprint = module->getAttrOfType<StringAttr>("ds4.fingerprint");
  auto profile = module->getAttrOfType<DictionaryAttr>("ds4.profile");
  auto layers = module->getAttrOfType<IntegerAttr>("ds4.layers");
  auto vocab = module->getAttrOfType<IntegerAttr>("ds4.vocab");
  auto context = module->getAttrOfType<IntegerAttr>("ds4.context");
  auto rollback = module->getAttrOfType<IntegerAttr>("ds4.most_rollback");
  if (!name || !fingerprint || !profile || !layers || !vocab || !context ||
      !rollback)
    return module.emitOpError()
           << "lacks one of ds4.model_name, ds4.fingerprint, ds4.profile, "
              "ds4.layers, ds4.vocab, ds4.context, ds4.most_rollback: it was "
              "not written by ds4c";
  Manifest manifest;
  manifest.modelName = name.str();
  manifest.fingerprint = fingerprint.str();
  for (NamedAttribute entry : profile)
    if (auto text = dyn_cast<StringAttr>(entry.getValue()))
      manifest.profile[entry.getName().str()] = text.str();
  manifest.layers = layers.getInt();
  manifest.vocab = vocab.getInt();
  manifest.context = context.getInt();
  manifest.mostRollback = rollback.getInt();
  return manifest;
}

} // namespace ds4::codegen
