// Ds4Ops.cpp - verifiers. The label behind a check names the constraint in
// Ds4Ops.td and the case in test/invalid.mlir.
#include "ir/Ds4Ops.h"

#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace ds4;
using namespace ds4::ir;

#define GET_OP_CLASSES
#include "ir/Ds4Ops.cpp.inc"

ArrayRef<int64_t> ds4::ir::activationShape(Type type) {
  if (auto q8 = dyn_cast<Q8Type>(type))
    return q8.getShape();
  return cast<RankedTensorType>(type).getShape();
}

Value ds4::ir::storageOf(Value value) {
  for (;;) {
    if (auto view = value.getDefiningOp<ReshapeOp>())
      value = view.getX();
    else if (auto launch = value.getDefiningOp<LaunchOp>())
      value = launch.getYielded(value);
    else
      return value;
  }
}

bool ds4::ir::isFree(Operation *op) {
  return isa<WeightOp, BooksOp, RotationsOp, StateOp, RopeTableOp, ReshapeOp>(
      op);
}

static ArrayRef<int64_t> shapeOf(Value value) {
  return activationShape(value.getType());
}

static std::string dimsText(ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "[";
  llvm::interleaveComma(shape, os);
  os << "]";
  return text;
}

/// Fails with "WHAT is [..], expected [..]" unless the shapes are equal.
static LogicalResult expectShape(Operation *op, StringRef what,
                                 ArrayRef<int64_t> found,
                                 ArrayRef<int64_t> expected) {
  if (found == expected)
    return success();
  return op->emitOpError() << what << " is " << dimsText(found) << ", expected "
                           << dimsText(expected);
}

static LogicalResult expectRank(Operation *op, StringRef what, Value value,
                                size_t rank) {
  if (shapeOf(value).size() == rank)
    return success();
  return op->emitOpError() << what << " has " << shapeOf(value).size()
                           << " dimensions, expected " << rank;
}

static LogicalResult expectFormat(Operation *op, StringRef what,
                                  WeightType type, WeightFormat format) {
  if (type.getFormat() == format)
    return success();
  auto name = [](WeightFormat f) {
    std::string_view text = weightFormatInfo(f).name;
    return StringRef(text.data(), text.size());
  };
  return op->emitOpError() << what << " is stored as " << name(type.getFormat())
                           << ", expected " << name(format);
}

/// An f32 weight of exactly this shape.
static LogicalResult expectVector(Operation *op, StringRef what,
                                  WeightType type, ArrayRef<int64_t> shape) {
  if (failed(expectFormat(op, what, type, WeightFormat::f32)))
    return failure();
  return expectShape(op, what, type.getShape(), shape);
}

static SmallVector<int64_t> withLast(ArrayRef<int64_t> shape, int64_t last) {
  SmallVector<int64_t> result(shape);
  result.back() = last;
  return result;
}

LogicalResult RopeTableOp::verify() {
  if (failed(expectRank(*this, "the table", getResult(), 2)))
    return failure();
  if (shapeOf(getResult())[1] % 2) // rope_table_c1
    return emitOpError() << "the table's last dimension, "
                         << shapeOf(getResult())[1] << ", is odd";
  return success();
}

LogicalResult ReshapeOp::verify() {
  auto x = cast<RankedTensorType>(getX().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  if (x.getNumElements() == result.getNumElements() &&
      x.getShape().front() == result.getShape().front()) // reshape_c1
    return success();
  return emitOpError() << "cannot view " << dimsText(x.getShape()) << " as "
                       << dimsText(result.getShape());
}

LogicalResult EmbedOp::verify() {
  WeightType table = getTable().getType();
  if (table.getRank() != 2)
    return emitOpError() << "the table has " << table.getRank()
                         << " dimensions, expected 2";
  if (failed(expectRank(*this, "the result", getResult(), 3)))
    return failure();
  ArrayRef<int64_t> result = shapeOf(getResult());
  if (table.getRowElements() != result[2]) // embed_c1
    return emitOpError() << "hidden size differs: the table has "
                         << table.getRowElements() << ", the result "
                         << result[2];
  return expectShape(*this, "tokens", shapeOf(getTokens()),
                     {result[0]}); // embed_c2
}

LogicalResult HcPreOp::verify() {
  if (failed(expectRank(*this, "streams", getStreams(), 3)))
    return failure();
  ArrayRef<int64_t> x = shapeOf(getStreams());
  int64_t tokens = x[0], streams = x[1], hidden = x[2];
  int64_t mixes = (2 + streams) * streams;
  if (failed(expectShape(*this, "fn", getFn().getType().getShape(),
                         {mixes, streams * hidden})) || // hc_pre_c1
      failed(expectVector(*this, "scale", getScale().getType(),
                          {3})) || // hc_pre_c2
      failed(expectVector(*this, "base", getBase().getType(), {mixes})))
    return failure();
  if (getIterations() < 1)
    return emitOpError() << "needs at least one Sinkhorn iteration, not "
                         << getIterations();
  if (failed(expectShape(*this, "x", shapeOf(getX()),
                         {tokens, hidden})) || // hc_pre_c3
      failed(expectShape(*this, "post", shapeOf(getPost()), {tokens, streams})))
    return failure();
  return expectShape(*this, "comb", shapeOf(getComb()),
                     {tokens, streams, streams});
}

LogicalResult HcPostOp::verify() {
  if (failed(expectRank(*this, "streams", getStreams(), 3)))
    return failure();
  ArrayRef<int64_t> x = shapeOf(getStreams());
  if (failed(expectShape(*this, "the result", shapeOf(getResult()),
                         x)) || // hc_post_c1
      failed(expectShape(*this, "y", shapeOf(getY()),
                         {x[0], x[2]})) || // hc_post_c2
      failed(expectShape(*this, "post", shapeOf(getPost()), {x[0], x[1]})))
    return failure();
  return expectShape(*this, "comb", shapeOf(getComb()), {x[0], x[1], x[1]});
}

LogicalResult HeadCollapseOp::verify() {
  if (failed(expectRank(*this, "streams", getStreams(), 3)))
    return failure();
  ArrayRef<int64_t> x = shapeOf(getStreams());
  if (failed(expectShape(*this, "fn", getFn().getType().getShape(),
                         {x[1], x[1] * x[2]})) || // head_collapse_c1
      failed(expectVector(*this, "scale", getScale().getType(),
                          {1})) || // head_collapse_c2
      failed(expectVector(*this, "base", getBase().getType(), {x[1]})))
    return failure();
  return expectShape(*this, "the result", shapeOf(getResult()),
                     {x[0], x[2]}); // head_collapse_c3
}

LogicalResult RmsNormOp::verify() {
  if (failed(expectShape(*this, "the result", shapeOf(getResult()),
                         shapeOf(getX())))) // rms_norm_c1
    return failure();
  if (!getWeight())
    return success();
  return expectVector(*this, "weight", cast<WeightType>(getWeight().getType()),
                      {shapeOf(getX()).back()}); // rms_norm_c2
}

/// What rotate and a rotating quantize share.
static LogicalResult verifyRotation(Operation *op, Value x, Value experts,
                                    Value rotations) {
  if (failed(expectRank(op, "x", x, 3)) ||
      failed(expectShape(op, "the experts", shapeOf(experts),
                         shapeOf(x).take_front(2))))
    return failure();
  if (shapeOf(x)[2] % 32)
    return op->emitOpError()
           << "vectors of " << shapeOf(x)[2] << " values are no multiple of 32";
  return expectRank(op, "rotations", rotations, 1);
}

LogicalResult RotateOp::verify() {
  if (failed(expectShape(*this, "the result", shapeOf(getResult()),
                         shapeOf(getX())))) // rotate_c1
    return failure();
  return verifyRotation(*this, getX(), getExperts(), // rotate_c2, rotate_c3
                        getRotations());
}

LogicalResult QuantizeOp::verify() {
  if (failed(expectShape(*this, "the result", shapeOf(getResult()),
                         shapeOf(getX())))) // quantize_c1
    return failure();
  if (!getExperts())
    return success();
  if (!getRotations())
    return emitOpError() << "experts and rotations come together";
  return verifyRotation(*this, getX(), getExperts(), // quantize_c2
                        getRotations());
}

/// (C3) and (C4) of linear: what may multiply what.
static LogicalResult verifyProduct(Operation *op, Type x, WeightType weight,
                                   int64_t rank) {
  if (weight.getRank() != rank) // linear_c4
    return op->emitOpError() << "the weight has " << weight.getRank()
                             << " dimensions, expected " << rank;
  if (weight.getFormat() == WeightFormat::i32) // linear_c4
    return op->emitOpError() << "an i32 table is not a matrix";
  if (isa<Q8Type>(x) && !weight.isQuantised()) // linear_c3
    return op->emitOpError() << "int8 activations need a block-quantised "
                                "weight, not "
                             << weight;
  return success();
}

/// (C5) of linear: a format with learned books has them, in the form of the
/// activations; another format has none.
static LogicalResult verifyBooks(Operation *op, Type x, WeightType weight,
                                 Value books) {
  if (!weight.getBookLevels()) {
    if (books)
      return op->emitOpError() << weight << " takes no codebooks";
    return success();
  }
  if (!books)
    return op->emitOpError() << weight << " needs its codebooks";
  auto type = cast<RankedTensorType>(books.getType());
  const bool int8 = isa<Q8Type>(x);
  if (type.getElementType().isF32() == int8)
    return op->emitOpError()
           << (int8 ? "int8" : "f32") << " activations need codebooks of "
           << (int8 ? "i8" : "f32") << ", not " << type.getElementType();
  const int64_t experts = weight.getRank() == 3 ? weight.getShape()[0] : 1;
  return expectShape(
      op, "a codebook table", type.getShape(),
      {experts, 2, static_cast<int64_t>(weight.getBookLevels()) + 4 * int8});
}

static LogicalResult verifyInputs(Operation *op, Type x, WeightType weight) {
  int64_t inputs = activationShape(x).back();
  if (inputs == weight.getRowElements())
    return success();
  return op->emitOpError() << "input width differs: the activations have "
                           << inputs << ", the weight "
                           << weight.getRowElements();
}

LogicalResult LinearOp::verify() {
  WeightType weight = getWeight().getType();
  if (failed(verifyProduct(*this, getX().getType(), weight, 2)) ||
      failed(verifyInputs(*this, getX().getType(), weight)) || // linear_c1
      failed(verifyBooks(*this, getX().getType(), weight,
                         getBooks()))) // linear_c5
    return failure();
  if (failed(expectRank(*this, "x", getX(), 2)))
    return failure();
  return expectShape(*this, "the result", shapeOf(getResult()),
                     {shapeOf(getX())[0], weight.getShape()[0]}); // linear_c2
}

LogicalResult GroupedLinearOp::verify() {
  WeightType weight = getWeight().getType();
  if (failed(verifyProduct(*this, getX().getType(), weight,
                           2)) || // grouped_linear_c3
      failed(verifyInputs(*this, getX().getType(),
                          weight)) || // grouped_linear_c1
      failed(verifyBooks(*this, getX().getType(), weight, getBooks())) ||
      failed(expectRank(*this, "x", getX(), 3)))
    return failure();
  ArrayRef<int64_t> x = shapeOf(getX());
  if (weight.getShape()[0] % x[1]) // grouped_linear_c2
    return emitOpError() << "the weight's " << weight.getShape()[0]
                         << " rows are not a multiple of " << x[1] << " groups";
  return expectShape(*this, "the result", shapeOf(getResult()),
                     {x[0], weight.getShape()[0]});
}

LogicalResult RopeOp::verify() {
  if (failed(expectShape(*this, "the result", shapeOf(getResult()),
                         shapeOf(getX()))) || // rope_c1
      failed(expectRank(*this, "the table", getTable(), 2)))
    return failure();
  if (shapeOf(getTable())[1] > shapeOf(getX()).back()) // rope_c2
    return emitOpError() << "rotates " << shapeOf(getTable())[1]
                         << " dimensions of " << shapeOf(getX()).back();
  return success();
}

LogicalResult HadamardOp::verify() {
  if (failed(expectShape(*this, "the result", shapeOf(getResult()),
                         shapeOf(getX())))) // hadamard_c1
    return failure();
  if (!llvm::isPowerOf2_64(shapeOf(getX()).back())) // hadamard_c2
    return emitOpError() << "width " << shapeOf(getX()).back()
                         << " is not a power of two";
  return success();
}

LogicalResult SimulateOp::verify() {
  if (failed(expectShape(*this, "the result", shapeOf(getResult()),
                         shapeOf(getX())))) // simulate_c1
    return failure();
  int64_t width = getWidth(), block = getMode() == SimulateMode::fp8 ? 64 : 32;
  if (width <= 0 || width % block) // simulate_c2
    return emitOpError() << "width " << width
                         << " is not a positive multiple of the block of "
                         << block;
  if (width > shapeOf(getX()).back())
    return emitOpError() << "width " << width << " exceeds the row's "
                         << shapeOf(getX()).back() << " values";
  return success();
}

LogicalResult RoundRowOp::verify() {
  if (failed(expectShape(*this, "the result", shapeOf(getResult()),
                         shapeOf(getX())))) // round_row_c1
    return failure();
  return StateType::verify([&] { return emitOpError(); }, 1, // round_row_c2
                           shapeOf(getX()).back(), getStorage());
}

LogicalResult StateOp::verify() {
  if (getRows().getRatio() == 0) // state_c1
    return emitOpError() << "has rows of outputs, which are not kept";
  return success();
}

LogicalResult AppendOp::verify() {
  if (failed(expectRank(*this, "x", getX(), 2)))
    return failure();
  if (shapeOf(getX())[1] != getState().getType().getWidth()) // append_c1
    return emitOpError() << "row width differs: x has " << shapeOf(getX())[1]
                         << ", the state " << getState().getType().getWidth();
  auto state = getState().getDefiningOp<StateOp>();
  if (state && state.getRows() != getRows()) // append_c2
    return emitOpError() << "row domain differs: the op has " << getRows()
                         << ", the state " << state.getRows();
  return success();
}

LogicalResult ApeAddOp::verify() {
  if (failed(expectShape(*this, "the result", shapeOf(getResult()),
                         shapeOf(getGate())))) // ape_add_c1
    return failure();
  WeightType ape = getApe().getType();
  if (ape.getRank() != 2 ||
      ape.getRowElements() != shapeOf(getGate()).back()) // ape_add_c2
    return emitOpError() << "ape is " << dimsText(ape.getShape())
                         << ", expected [ratio, " << shapeOf(getGate()).back()
                         << "]";
  return success();
}

LogicalResult CompressOp::verify() {
  if (failed(expectRank(*this, "kv", getKv(), 2)) ||
      failed(expectRank(*this, "the result", getResult(), 2)) ||
      failed(expectShape(*this, "gate", shapeOf(getGate()),
                         shapeOf(getKv())))) // compress_c1
    return failure();
  int64_t channels = shapeOf(getKv())[1], width = shapeOf(getResult())[1];
  if (channels != (getOverlap() ? 2 : 1) * width) // compress_c1
    return emitOpError() << "kv has " << channels << " channels for rows of "
                         << width;
  int64_t ratio = getRatio();
  if (ratio < 2)
    return emitOpError() << "a window has at least 2 tokens, not " << ratio;
  int64_t needed = (getOverlap() ? 2 * ratio : ratio) - 1;
  for (StateType ring : {getKvRing().getType(), getGateRing().getType()}) {
    if (ring.getStorage() != RowStorage::f32 ||
        ring.getWidth() != channels) // compress_c2
      return emitOpError() << "a ring is " << ring << ", expected f32 rows of "
                           << channels;
    if (ring.getRows() < needed) // compress_c2
      return emitOpError() << "a ring of " << ring.getRows()
                           << " rows cannot hold the " << needed
                           << " earlier tokens of a window";
  }
  int64_t windows = llvm::divideCeil(shapeOf(getKv())[0], ratio);
  return expectShape(*this, "the result", shapeOf(getResult()),
                     {windows, width}); // compress_c3
}

LogicalResult IndexScoreOp::verify() {
  if (failed(expectRank(*this, "q", getQ(), 3)))
    return failure();
  ArrayRef<int64_t> q = shapeOf(getQ());
  StateType keys = getKeys().getType();
  if (q[2] != keys.getWidth()) // index_score_c1
    return emitOpError() << "key width differs: q has " << q[2] << ", the keys "
                         << keys.getWidth();
  if (failed(expectShape(*this, "the head weights", shapeOf(getWeights()),
                         {q[0], q[1]}))) // index_score_c2
    return failure();
  return expectShape(*this, "the result", shapeOf(getResult()),
                     {q[0], keys.getRows()}); // index_score_c3
}

LogicalResult TopKOp::verify() {
  if (failed(expectRank(*this, "scores", getScores(), 2)))
    return failure();
  return expectShape(
      *this, "the result", shapeOf(getResult()),
      {shapeOf(getScores())[0], static_cast<int64_t>(getK())}); // top_k_c1
}

LogicalResult AttendOp::verify() {
  if (failed(expectRank(*this, "q", getQ(), 3)))
    return failure();
  ArrayRef<int64_t> q = shapeOf(getQ());
  if (failed(expectShape(*this, "the result", shapeOf(getResult()),
                         q)) || // attend_c1
      failed(expectShape(*this, "kv", shapeOf(getKv()), {q[0], q[2]})))
    return failure();
  StateType ring = getRing().getType();
  if (ring.getWidth() != q[2] ||
      ring.getRows() + 1 < static_cast<int64_t>(getWindow())) // attend_c2
    return emitOpError() << "the ring is " << ring << ", expected at least "
                         << getWindow() - 1 << " rows of " << q[2];
  if (failed(expectVector(*this, "sinks", getSinks().getType(),
                          {q[1]}))) // attend_c3
    return failure();
  if (bool(getCompressed()) != (getRatio() > 0)) // attend_c4
    return emitOpError() << "compressed rows and a positive ratio come "
                            "together";
  if (getCompressed()) { // attend_c4
    auto compressed = cast<StateType>(getCompressed().getType());
    if (compressed.getWidth() != q[2])
      return emitOpError() << "compressed rows have " << compressed.getWidth()
                           << " values, expected " << q[2];
  }
  if (getSelected() && !getCompressed()) // attend_c4
    return emitOpError() << "a selection needs compressed rows";
  return success();
}

static LogicalResult verifyRouting(Operation *op, Value logits, Value experts,
                                   Value weights, int64_t most) {
  if (failed(expectRank(op, "logits", logits, 2)) ||
      failed(expectRank(op, "the experts", experts, 2)))
    return failure();
  int64_t used = shapeOf(experts)[1];
  if (used > most)
    return op->emitOpError() << "chooses " << used << " experts of " << most;
  SmallVector<int64_t> chosen{shapeOf(logits)[0], used};
  if (failed(expectShape(op, "the experts", shapeOf(experts), chosen)))
    return failure();
  return expectShape(op, "the weights", shapeOf(weights), chosen);
}

LogicalResult RouteOp::verify() {
  if (failed(expectRank(*this, "logits", getLogits(), 2)) ||
      failed(expectVector(*this, "bias", getBias().getType(),
                          {shapeOf(getLogits())[1]}))) // route_c1
    return failure();
  return verifyRouting(*this, getLogits(), getExperts(), getWeights(),
                       shapeOf(getLogits())[1]); // route_c2
}

LogicalResult HashRouteOp::verify() {
  WeightType table = getTable().getType();
  if (failed(expectFormat(*this, "the table", table, WeightFormat::i32)))
    return failure();
  if (table.getRank() != 2) // hash_route_c1
    return emitOpError() << "the table has " << table.getRank()
                         << " dimensions, expected 2";
  if (failed(expectShape(*this, "tokens", shapeOf(getTokens()),
                         {shapeOf(getLogits())[0]}))) // hash_route_c1
    return failure();
  return verifyRouting(*this, getLogits(), getExperts(), getWeights(),
                       table.getRowElements()); // hash_route_c2
}

LogicalResult GroupPairsOp::verify() {
  if (getCount() <= 0) // group_pairs_c2
    return emitOpError() << "has no experts to group by";
  return expectShape(*this, "the result", shapeOf(getResult()),
                     shapeOf(getExperts())); // group_pairs_c1
}

/// Optional pairs of an expert product.
static LogicalResult verifyPairs(Operation *op, Value pairs, Value experts) {
  if (!pairs || pairs.getType() == experts.getType())
    return success();
  return op->emitOpError() << "pairs are " << pairs.getType()
                           << ", the experts are " << experts.getType();
}

LogicalResult ExpertGateUpOp::verify() {
  WeightType gate = getGate().getType();
  if (gate != getUp().getType()) // expert_gate_up_c1
    return emitOpError() << "gate is " << gate << ", up is "
                         << getUp().getType();
  Type x = getX().getType();
  if (failed(verifyProduct(*this, x, gate, 3)) ||
      failed(verifyInputs(*this, x, gate)) ||
      failed(verifyBooks(*this, x, gate,
                         getGateBooks())) || // expert_gate_up_c3
      failed(verifyBooks(*this, x, gate, getUpBooks())) ||
      failed(expectRank(*this, "x", getX(), 2)) ||
      failed(expectRank(*this, "the experts", getExperts(), 2)) ||
      failed(verifyPairs(*this, getPairs(),
                         getExperts()))) // expert_gate_up_c4
    return failure();
  SmallVector<int64_t> result{shapeOf(getX())[0], shapeOf(getExperts())[1],
                              gate.getShape()[1]};
  if (failed(expectShape(*this, "the gate result", shapeOf(getGateOut()),
                         result))) // expert_gate_up_c2
    return failure();
  return expectShape(*this, "the up result", shapeOf(getUpOut()), result);
}

LogicalResult SwigluOp::verify() {
  if (!getLimit().isNegative() && !getLimit().isZero() &&
      !getLimit().isNaN()) // swiglu_c1
    return success();
  return emitOpError() << "limit is not positive";
}

LogicalResult ExpertDownOp::verify() {
  WeightType weight = getWeight().getType();
  Type h = getH().getType();
  if (failed(verifyProduct(*this, h, weight, 3)) ||
      failed(verifyInputs(*this, h, weight)) ||            // expert_down_c1
      failed(verifyBooks(*this, h, weight, getBooks())) || // expert_down_c3
      failed(expectRank(*this, "h", getH(), 3)) ||
      failed(verifyPairs(*this, getPairs(),
                         getExperts()))) // expert_down_c4
    return failure();
  if (failed(expectShape(*this, "the experts", shapeOf(getExperts()),
                         shapeOf(getH()).take_front(2))))
    return failure();
  return expectShape(*this, "the result", shapeOf(getResult()),
                     withLast(shapeOf(getH()),
                              weight.getShape()[1])); // expert_down_c2
}

LogicalResult CombineOp::verify() {
  if (failed(expectRank(*this, "y", getY(), 3))) // combine_c1
    return failure();
  ArrayRef<int64_t> y = shapeOf(getY());
  if (failed(expectShape(*this, "the weights", shapeOf(getWeights()),
                         y.take_front(2))) || // combine_c2
      failed(expectShape(*this, "shared", shapeOf(getShared()), {y[0], y[2]})))
    return failure();
  return expectShape(*this, "the result", shapeOf(getResult()), {y[0], y[2]});
}

LogicalResult TakeOutputsOp::verify() {
  ArrayRef<int64_t> x = shapeOf(getX()), result = shapeOf(getResult());
  if (x.drop_front() != result.drop_front() ||
      result[0] > x[0]) // take_outputs_c1
    return emitOpError() << "takes " << dimsText(result) << " from "
                         << dimsText(x);
  return success();
}

LogicalResult ArgmaxOp::verify() {
  return expectShape(*this, "the result", shapeOf(getResult()),
                     shapeOf(getLogits()).take_front(1)); // argmax_c1
}

LogicalResult ObserveOp::verify() {
  WeightType weight = getWeight().getType();
  ArrayRef<int64_t> x = shapeOf(getX());
  const int64_t width = weight.getRowElements();
  int64_t elements = 1;
  for (int64_t size : x.drop_front())
    elements *= size;
  if (elements % width) // observe_c1
    return emitOpError() << "a row of " << elements
                         << " activations is no multiple of the weight's "
                         << width;
  if ((weight.getRank() == 3) != static_cast<bool>(getExperts())) // observe_c2
    return emitOpError() << "a weight of " << weight.getRank() << " dimensions "
                         << (getExperts() ? "has no experts" : "needs experts");
  if (!getExperts() || x == ArrayRef<int64_t>{x[0], width}) // observe_c3
    return success();
  return expectShape(*this, "x", x,
                     {x[0], shapeOf(getExperts()).back(), width});
}
