// StepInterpreter.cpp - each op of the dialect as a call of ds4::ref. Sizes
// come from the types, rows from the step; nothing is computed here.
#include "ops/StepInterpreter.h"

#include "runtime/RopeTable.h"

#include "llvm/ADT/TypeSwitch.h"

#include <fmt/format.h>

#include <algorithm>

using namespace mlir;

namespace ds4 {

using namespace ir;

static uint64_t dim(Value value, unsigned index) {
  return static_cast<uint64_t>(activationShape(value.getType())[index]);
}
static uint64_t lastDim(Value value) {
  return static_cast<uint64_t>(activationShape(value.getType()).back());
}
/// Values of a row: all dimensions but the leading one.
static uint64_t rowElements(Value value) {
  uint64_t product = 1;
  for (int64_t size : activationShape(value.getType()).drop_front())
    product *= static_cast<uint64_t>(size);
  return product;
}

static ref::RowStorage storageOf(RowStorage storage) {
  switch (storage) {
  case RowStorage::f32:
    return ref::RowStorage::f32;
  case RowStorage::f16:
    return ref::RowStorage::f16;
  case RowStorage::fp8:
    return ref::RowStorage::fp8;
  case RowStorage::fp4:
    return ref::RowStorage::fp4;
  }
  llvm_unreachable("a storage without a case");
}

/// "layer 3 " for ops of a layer, or nothing.
static std::string layerText(Operation *op) {
  if (auto layer = op->getAttrOfType<IntegerAttr>(kLayerAttr))
    return fmt::format("layer {} ", layer.getInt());
  return "";
}

//===----------------------------------------------------------------------===//
// Operands and results
//===----------------------------------------------------------------------===//

ref::Floats StepInterpreter::floats(Value value) const {
  const Slot &slot = slots.find(storageOf(value))->second;
  return slot.floats ? ref::Floats(*slot.floats) : slot.table;
}
ref::Ints StepInterpreter::ints(Value value) const {
  return slots.find(storageOf(value))->second.ints;
}
ref::Act StepInterpreter::act(Value value) const {
  const Slot &slot = slots.find(storageOf(value))->second;
  if (slot.q8)
    return ref::Act(*slot.q8);
  return ref::Act(*slot.floats, lastDim(value));
}
ref::Weight StepInterpreter::weight(Value value) const {
  return slots.find(storageOf(value))->second.weight;
}
ref::Weight StepInterpreter::weight(Value value, Value books) const {
  ref::Weight result = weight(value);
  if (books) {
    const Slot &slot = slots.find(books)->second;
    result.books = slot.table;
    result.int8Books = slot.int8Books;
  }
  return result;
}
ref::State &StepInterpreter::state(Value value) const {
  return *slots.find(storageOf(value))->second.state;
}
ref::Floats StepInterpreter::floatWeight(Value value) const {
  const ref::Weight w = weight(value);
  // Tensor bytes are aligned as operator new aligns.
  return {reinterpret_cast<const float *>(w.bytes.data()), w.bytes.size() / 4};
}
ref::Ints StepInterpreter::intWeight(Value value) const {
  const ref::Weight w = weight(value);
  return {reinterpret_cast<const int32_t *>(w.bytes.data()),
          w.bytes.size() / 4};
}

std::span<float> StepInterpreter::makeFloats(Value value, uint64_t rows) {
  Slot &slot = slots[value];
  slot.floats = std::make_shared<std::vector<float>>(rows * rowElements(value));
  return *slot.floats;
}
std::span<int32_t> StepInterpreter::makeInts(Value value, uint64_t rows) {
  Slot &slot = slots[value];
  slot.ints.resize(rows * rowElements(value));
  return slot.ints;
}

//===----------------------------------------------------------------------===//
// Leaves
//===----------------------------------------------------------------------===//

Status StepInterpreter::run(WeightOp op) {
  const WeightType type = op.getType();
  ref::Weight weight;
  weight.format = type.getFormat();
  DS4_ASSIGN(weight.bytes, model.weightBytes(op.getName().str()));
  weight.columns = static_cast<uint64_t>(type.getRowElements());
  if (type.getRank() == 3)
    weight.rowsPerExpert = static_cast<uint64_t>(type.getShape()[1]);
  slots[op].weight = weight;
  return Status::ok();
}

Status StepInterpreter::run(BooksOp op) {
  const auto it = model.decodeTables.find(std::string_view(op.getName()));
  if (it == model.decodeTables.end())
    return invalidInput(fmt::format("{} has no decode table for \"{}\"",
                                    model.gguf.path(),
                                    std::string_view(op.getName())));
  if (cast<RankedTensorType>(op.getType()).getElementType().isF32()) {
    slots[op].table = it->second.books;
    return Status::ok();
  }
  std::vector<uint8_t> &books = model.int8Books[it->first];
  if (books.empty())
    books = it->second.int8Books();
  slots[op].int8Books = books;
  return Status::ok();
}

Status StepInterpreter::run(RotationsOp op) {
  const auto it = model.decodeTables.find(std::string_view(op.getName()));
  if (it == model.decodeTables.end() || it->second.rotated.size() != dim(op, 0))
    return invalidInput(fmt::format("{} has no rotation flags for \"{}\"",
                                    model.gguf.path(),
                                    std::string_view(op.getName())));
  slots[op].ints.assign(it->second.rotated.begin(), it->second.rotated.end());
  return Status::ok();
}

Status StepInterpreter::run(StateOp op) {
  const StateType type = op.getType();
  const auto rows = static_cast<uint64_t>(type.getRows());
  const auto width = static_cast<uint64_t>(type.getWidth());
  const ref::RowStorage storage = storageOf(type.getStorage());
  ref::State &state =
      model.states.try_emplace(op.getName().str(), rows, width, storage)
          .first->second;
  if (state.rows != rows || state.width != width || state.storage != storage)
    return invalidInput(fmt::format("state \"{}\" has two types in this module",
                                    std::string_view(op.getName())));
  slots[op].state = &state;
  return Status::ok();
}

Status StepInterpreter::run(RopeTableOp op) {
  RopeTable table;
  table.name = op.getName().str();
  table.positions = dim(op, 0);
  table.dims = static_cast<uint32_t>(dim(op, 1));
  table.base = op.getBase().convertToDouble();
  table.factor = op.getFactor().convertToDouble();
  table.original = op.getOriginal();
  table.betaFast = op.getBetaFast().convertToDouble();
  table.betaSlow = op.getBetaSlow().convertToDouble();
  std::vector<float> &values = model.ropeTables[table.name];
  if (values.empty())
    values = makeRopeTable(table);
  slots[op].table = values;
  return Status::ok();
}

Status StepInterpreter::run(ReshapeOp) { return Status::ok(); }

//===----------------------------------------------------------------------===//
// Embedding, residual streams, norms
//===----------------------------------------------------------------------===//

Status StepInterpreter::run(EmbedOp op) {
  const ref::Weight table = weight(op.getTable());
  for (int32_t token : ints(op.getTokens()))
    if (token < 0 || static_cast<uint64_t>(token) >= table.rows())
      return invalidInput(
          fmt::format("token {} is not in the vocabulary of {} tokens", token,
                      table.rows()));
  ref::embed(ints(op.getTokens()), table, dim(op, 1),
             makeFloats(op, tokenRows()));
  return Status::ok();
}

Status StepInterpreter::run(HcPreOp op) {
  const ref::HcPreParams params{
      dim(op.getStreams(), 1), dim(op.getStreams(), 2),
      op.getEps().convertToFloat(), op.getHcEps().convertToFloat(),
      op.getIterations()};
  const uint64_t rows = tokenRows();
  const std::span<float> x = makeFloats(op.getX(), rows);
  const std::span<float> post = makeFloats(op.getPost(), rows);
  const std::span<float> comb = makeFloats(op.getComb(), rows);
  ref::hcPre(params, floats(op.getStreams()), weight(op.getFn()),
             floatWeight(op.getScale()), floatWeight(op.getBase()), x, post,
             comb);
  return Status::ok();
}

Status StepInterpreter::run(HcPostOp op) {
  const std::span<float> out = makeFloats(op, tokenRows());
  ref::hcPost(dim(op, 1), dim(op, 2), floats(op.getY()),
              floats(op.getStreams()), floats(op.getPost()),
              floats(op.getComb()), out);
  return Status::ok();
}

Status StepInterpreter::run(HeadCollapseOp op) {
  const ref::HcPreParams params{
      dim(op.getStreams(), 1), dim(op.getStreams(), 2),
      op.getEps().convertToFloat(), op.getHcEps().convertToFloat(), 0};
  const std::span<float> out = makeFloats(op, outputRows());
  // A phase of one token may read the token's own streams.
  const ref::Floats streams =
      floats(op.getStreams())
          .first(outputRows() * rowElements(op.getStreams()));
  ref::headCollapse(params, streams, weight(op.getFn()),
                    floatWeight(op.getScale()), floatWeight(op.getBase()), out);
  return Status::ok();
}

Status StepInterpreter::run(RmsNormOp op) {
  const std::span<float> out = makeFloats(op, rowsOf(op.getRows()).count());
  const ref::Floats gain =
      op.getWeight() ? floatWeight(op.getWeight()) : ref::Floats();
  ref::rmsNorm(lastDim(op), floats(op.getX()), gain,
               op.getEps().convertToFloat(), out);
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// Linears
//===----------------------------------------------------------------------===//

Status StepInterpreter::run(RotateOp op) {
  const std::span<float> out = makeFloats(op, tokenRows());
  ref::rotate(lastDim(op), floats(op.getX()), ints(op.getExperts()),
              ints(op.getRotations()), out);
  return Status::ok();
}

Status StepInterpreter::run(QuantizeOp op) {
  const uint64_t width = lastDim(op.getX());
  std::vector<float> rotated;
  ref::Floats x = floats(op.getX());
  if (op.getRotations()) {
    rotated.resize(x.size());
    ref::rotate(width, x, ints(op.getExperts()), ints(op.getRotations()),
                rotated);
    x = rotated;
  }
  slots[op].q8 = std::make_shared<ref::Q8>(ref::quantize(width, x));
  return Status::ok();
}

Status StepInterpreter::run(LinearOp op) {
  const std::span<float> out = makeFloats(op, rowsOf(op.getRows()).count());
  ref::linear(act(op.getX()), weight(op.getWeight(), op.getBooks()), out);
  return Status::ok();
}

Status StepInterpreter::run(GroupedLinearOp op) {
  const std::span<float> out = makeFloats(op, tokenRows());
  ref::groupedLinear(dim(op.getX(), 1), act(op.getX()),
                     weight(op.getWeight(), op.getBooks()), out);
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

Status StepInterpreter::run(RopeOp op) {
  const ref::Rows rows = rowsOf(op.getRows());
  const std::span<float> out = makeFloats(op, rows.count());
  ref::rope(rows, lastDim(op), lastDim(op.getTable()), op.getInverse(),
            floats(op.getX()), floats(op.getTable()), out);
  return Status::ok();
}

Status StepInterpreter::run(HadamardOp op) {
  const std::span<float> out = makeFloats(op, rowsOf(op.getRows()).count());
  ref::hadamard(lastDim(op), floats(op.getX()), out);
  return Status::ok();
}

Status StepInterpreter::run(SimulateOp op) {
  const std::span<float> out = makeFloats(op, rowsOf(op.getRows()).count());
  const ref::SimulateMode mode = op.getMode() == SimulateMode::fp8
                                     ? ref::SimulateMode::fp8
                                     : ref::SimulateMode::fp4;
  ref::simulate(mode, lastDim(op), op.getWidth(), floats(op.getX()), out);
  return Status::ok();
}

Status StepInterpreter::run(RoundRowOp op) {
  const std::span<float> out = makeFloats(op, rowsOf(op.getRows()).count());
  ref::roundRow(storageOf(op.getStorage()), lastDim(op), floats(op.getX()),
                out);
  return Status::ok();
}

Status StepInterpreter::run(AppendOp op) {
  ref::append(rowsOf(op.getRows()), floats(op.getX()), state(op.getState()));
  return Status::ok();
}

Status StepInterpreter::run(ApeAddOp op) {
  const std::span<float> out = makeFloats(op, tokenRows());
  ref::apeAdd(step, floats(op.getGate()), weight(op.getApe()), out);
  return Status::ok();
}

Status StepInterpreter::run(CompressOp op) {
  const ref::Rows windows{static_cast<RowRatio>(op.getRatio()), step};
  const std::span<float> out = makeFloats(op, windows.count());
  ref::compress(step, op.getRatio(), op.getOverlap(), floats(op.getKv()),
                floats(op.getGate()), state(op.getKvRing()),
                state(op.getGateRing()), out);
  return Status::ok();
}

Status StepInterpreter::run(IndexScoreOp op) {
  const ref::IndexScoreParams params{dim(op.getQ(), 1), dim(op.getQ(), 2),
                                     op.getRatio(), op.getTopK(),
                                     op.getScale().convertToFloat()};
  const std::span<float> out = makeFloats(op, tokenRows());
  ref::indexScore(params, step, floats(op.getQ()), floats(op.getWeights()),
                  state(op.getKeys()), out);
  return Status::ok();
}

Status StepInterpreter::run(TopKOp op) {
  const std::span<int32_t> out = makeInts(op, tokenRows());
  return checkSelection(op, ref::topK(step, op.getK(), op.getRatio(),
                                      dim(op.getScores(), 1),
                                      floats(op.getScores()), out));
}

Status StepInterpreter::run(AttendOp op) {
  const ref::AttendParams params{dim(op.getQ(), 1), dim(op.getQ(), 2),
                                 op.getWindow(), op.getRatio(),
                                 op.getScale().convertToFloat()};
  const std::span<float> out = makeFloats(op, tokenRows());
  const ref::State *compressed =
      op.getCompressed() ? &state(op.getCompressed()) : nullptr;
  const ref::Ints selected =
      op.getSelected() ? ints(op.getSelected()) : ref::Ints();
  ref::attend(params, step, floats(op.getQ()), floats(op.getKv()),
              state(op.getRing()), floatWeight(op.getSinks()), compressed,
              selected, out);
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// Mixture of experts
//===----------------------------------------------------------------------===//

Status StepInterpreter::run(RouteOp op) {
  const std::span<int32_t> experts = makeInts(op.getExperts(), tokenRows());
  const std::span<float> weights = makeFloats(op.getWeights(), tokenRows());
  return checkSelection(
      op, ref::route(lastDim(op.getExperts()), floats(op.getLogits()),
                     floatWeight(op.getBias()), op.getScale().convertToFloat(),
                     experts, weights));
}

Status StepInterpreter::run(HashRouteOp op) {
  const uint64_t count = lastDim(op.getLogits());
  const ref::Ints table = intWeight(op.getTable());
  for (int32_t expert : table)
    if (expert < 0 || static_cast<uint64_t>(expert) >= count)
      return invalidInput(fmt::format(
          "{}hash_route: the table names expert {}, the model has {}",
          layerText(op), expert, count));
  const std::span<int32_t> experts = makeInts(op.getExperts(), tokenRows());
  const std::span<float> weights = makeFloats(op.getWeights(), tokenRows());
  return checkSelection(
      op, ref::hashRoute(count, lastDim(op.getExperts()),
                         weight(op.getTable()).columns, floats(op.getLogits()),
                         ints(op.getTokens()), table,
                         op.getScale().convertToFloat(), experts, weights));
}

Status StepInterpreter::run(GroupPairsOp op) {
  ref::groupPairs(ints(op.getExperts()), makeInts(op, tokenRows()));
  return Status::ok();
}

Status StepInterpreter::run(ExpertGateUpOp op) {
  const std::span<float> gate = makeFloats(op.getGateOut(), tokenRows());
  const std::span<float> up = makeFloats(op.getUpOut(), tokenRows());
  ref::expertGateUp(act(op.getX()), ints(op.getExperts()),
                    weight(op.getGate(), op.getGateBooks()),
                    weight(op.getUp(), op.getUpBooks()), gate, up);
  return Status::ok();
}

Status StepInterpreter::run(SwigluOp op) {
  const std::span<float> out = makeFloats(op, tokenRows());
  ref::swiglu(floats(op.getGate()), floats(op.getUp()),
              op.getLimit().convertToFloat(), out);
  return Status::ok();
}

Status StepInterpreter::run(ExpertDownOp op) {
  const std::span<float> out = makeFloats(op, tokenRows());
  ref::expertDown(act(op.getH()), ints(op.getExperts()),
                  weight(op.getWeight(), op.getBooks()), out);
  return Status::ok();
}

Status StepInterpreter::run(CombineOp op) {
  const std::span<float> out = makeFloats(op, tokenRows());
  ref::combine(dim(op.getY(), 1), dim(op.getY(), 2), floats(op.getY()),
               floats(op.getWeights()), floats(op.getShared()), out);
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

Status StepInterpreter::run(TakeOutputsOp op) {
  const std::span<float> out = makeFloats(op, outputRows());
  ref::takeOutputs(step, rowElements(op), floats(op.getX()), out);
  return Status::ok();
}

Status StepInterpreter::run(ArgmaxOp op) {
  const std::span<int32_t> out = makeInts(op, outputRows());
  return checkSelection(
      op, ref::argmax(lastDim(op.getLogits()), floats(op.getLogits()), out));
}

Status StepInterpreter::run(TraceOp op) {
  const ref::Floats x = floats(op.getX());
  result.traces[op.getName().str()].assign(x.begin(), x.end());
  return Status::ok();
}

/// Names a value for the engine; the oracle collects nothing.
Status StepInterpreter::run(ObserveOp) { return Status::ok(); }

Status StepInterpreter::run(LaunchOp op) {
  for (Operation &inner : op.getBody().front().without_terminator())
    DS4_TRY(execute(&inner));
  return Status::ok();
}

Status StepInterpreter::run(func::ReturnOp op) {
  const ref::Floats logits = floats(op.getOperand(0));
  result.logits.assign(logits.begin(), logits.end());
  const ref::Ints argmax = ints(op.getOperand(1));
  result.argmax.assign(argmax.begin(), argmax.end());
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

Status StepInterpreter::checkSelection(Operation *op, ref::NanRow row) const {
  if (!row)
    return Status::ok();
  const uint64_t first =
      isa<ArgmaxOp>(op) ? tokenRows() - outputRows() : uint64_t{0};
  return invalidInput(
      fmt::format("{}{}: NaN at position {}", layerText(op),
                  std::string_view(op->getName().stripDialect()),
                  static_cast<uint64_t>(step.start) + first + *row));
}

Status StepInterpreter::execute(Operation *op) {
  return llvm::TypeSwitch<Operation *, Status>(op)
      .Case<WeightOp, BooksOp, RotationsOp, StateOp, RopeTableOp, ReshapeOp,
            EmbedOp, HcPreOp, HcPostOp, HeadCollapseOp, RmsNormOp, RotateOp,
            QuantizeOp, LinearOp, GroupedLinearOp, RopeOp, HadamardOp,
            SimulateOp, RoundRowOp, AppendOp, ApeAddOp, CompressOp,
            IndexScoreOp, TopKOp, AttendOp, RouteOp, HashRouteOp, GroupPairsOp,
            ExpertGateUpOp, SwigluOp, ExpertDownOp, CombineOp, TakeOutputsOp,
            ArgmaxOp, TraceOp, ObserveOp, LaunchOp, func::ReturnOp>(
          [&](auto concrete) { return run(concrete); })
      .Default([](Operation *unknown) {
        return invalidInput(
            fmt::format("the oracle has no op {}",
                        std::string_view(unknown->getName().getStringRef())));
      });
}

Result<StepResult> StepInterpreter::run(func::FuncOp func) {
  slots[func.getArgument(0)].ints.assign(tokens.begin(), tokens.end());
  for (Operation &op : func.getBody().front())
    DS4_TRY(execute(&op));
  return std::move(result);
}

} // namespace ds4
