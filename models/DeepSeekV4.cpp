// DeepSeekV4.cpp - the forward pass, layer by layer, in the order in which the
// paper tells it. Sizes come from the hyper-parameters, storage from the
// file, rounding choices from the profile.
#include "models/DeepSeekV4.h"

#include "ir/Ds4Ops.h"
#include "models/WeightMap.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"

#include <fmt/format.h>

#include <cmath>

using namespace mlir;

namespace ds4 {

using namespace ir;

namespace {

/// A vector of activations and, once somebody asked, its int8 form.
struct Activations {
  Value f32;
  Value q8;
};

/// Builds one phase. Letters as in Ds4Ops.td; T is the token capacity.
///
/// No call below creates ops in two of its arguments: C++ leaves their order
/// open, and the text of a graph must not depend on the compiler.
class PhaseBuilder {
public:
  PhaseBuilder(OpBuilder &builder, const Hparams &h, const ModelWeights &w,
               const Profile &profile, int64_t capacity, int64_t outputs)
      : b(builder), h(h), w(w), profile(profile), T(capacity),
        outputRows(outputs) {}

  func::FuncOp build(StringRef name);

private:
  // Small vocabulary.
  Location loc() { return b.getUnknownLoc(); }
  RankedTensorType f32(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, b.getF32Type());
  }
  RankedTensorType i32(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, b.getI32Type());
  }
  FloatAttr real(double value) {
    return b.getF32FloatAttr(static_cast<float>(value));
  }
  RowsAttr rowsOf(int64_t ratio) {
    return RowsAttr::get(b.getContext(), ratio);
  }
  /// Creates an op that belongs to the current layer.
  template <typename OpT, typename... Args> OpT create(Args &&...args) {
    auto op = b.create<OpT>(loc(), std::forward<Args>(args)...);
    if (layer >= 0)
      op->setAttr(kLayerAttr, b.getI32IntegerAttr(layer));
    return op;
  }
  std::string blk(StringRef name) {
    return fmt::format("blk.{}.{}", layer, std::string_view(name));
  }

  Value weight(const WeightRef &ref) {
    return create<WeightOp>(
        WeightType::get(b.getContext(), ref.shape, ref.format), ref.name);
  }
  /// Decode table of a weight, or null if its format has none.
  Value books(const WeightRef &ref) {
    int64_t levels = weightFormatInfo(ref.format).bookLevels;
    if (!levels)
      return {};
    int64_t experts = ref.shape.size() == 3 ? ref.shape[0] : 1;
    RankedTensorType type = f32({experts, 2, levels});
    if (profile.books == "int8")
      type = RankedTensorType::get({experts, 2, levels + 4}, b.getI8Type());
    return create<BooksOp>(type, ref.name);
  }
  Value state(StringRef name, int64_t rows, int64_t width, RowStorage storage,
              int64_t ratio = 1) {
    return create<StateOp>(StateType::get(b.getContext(), rows, width, storage),
                           blk(name), rowsOf(ratio));
  }
  Value norm(Value x, const WeightRef &gain, int64_t ratio = 1) {
    return create<RmsNormOp>(x.getType(), x, weight(gain), real(h.rmsEps),
                             rowsOf(ratio));
  }
  Value rope(Value x, bool inverse = false, int64_t ratio = 1) {
    return create<RopeOp>(x.getType(), x, ropeTable, inverse, rowsOf(ratio));
  }
  Value reshape(Value x, ArrayRef<int64_t> shape);
  void trace(StringRef point, Value x) {
    if (profile.tracePoints)
      create<TraceOp>(fmt::format("layer{}.{}", layer, std::string_view(point)),
                      x, rowsOf(1));
  }
  /// Names `x` as what the linear of `ref` reads; experts: which ones.
  void observe(Value x, const WeightRef &ref, int64_t ratio = 1,
               Value experts = {}) {
    if (profile.imatrix)
      create<ObserveOp>(x, weight(ref), experts, rowsOf(ratio));
  }

  /// What a large linear reads: int8 activations if the weight has integer
  /// levels, f32 otherwise.
  Value large(Activations &x, const WeightRef &ref, int64_t ratio = 1);
  /// The same for an expert weight whose experts have inputs of their own,
  /// which are rotated where the weight is.
  Value expertInput(Activations &x, const WeightRef &ref, Value experts);
  /// y = W x for a large linear.
  Value largeLinear(Activations &x, const WeightRef &ref, int64_t ratio = 1);
  /// y = W x with f32 activations whatever the storage.
  Value exactLinear(Value x, const WeightRef &ref);

  // The model.
  Value hyperConnection(Value streams, const HyperConnectionWeights &site,
                        const WeightRef &gain, StringRef tracePoint,
                        llvm::function_ref<Value(Activations)> sublayer);
  Value attention(Activations x);
  Value compressor(Value x, const CompressorWeights &weights,
                   StringRef ringName, int64_t width, bool indexer);
  Value indexer(Value x, Activations &qr, int64_t rows);
  Value mixtureOfExperts(Activations x);
  Value sharedExpert(Activations &x);
  RowStorage rowStorage(bool indexRow);
  Value storedRow(Value row, bool indexRow, int64_t ratio);
  void buildLayer();

  OpBuilder &b;
  const Hparams &h;
  const ModelWeights &w;
  const Profile &profile;
  const int64_t T, outputRows;

  Value tokens, streams;
  Value slidingRope, compressedRope; ///< one table a base
  Value ropeTable;                   ///< of the current layer
  int layer = -1;
};

} // namespace

Value PhaseBuilder::large(Activations &x, const WeightRef &ref, int64_t ratio) {
  const WeightFormatInfo &info = weightFormatInfo(ref.format);
  if (!info.quantised || (info.bookLevels && profile.books == "float"))
    return x.f32;
  if (!x.q8)
    x.q8 = create<QuantizeOp>(
        Q8Type::get(b.getContext(), activationShape(x.f32.getType())), x.f32,
        Value(), Value(), rowsOf(ratio));
  return x.q8;
}

Value PhaseBuilder::expertInput(Activations &x, const WeightRef &ref,
                                Value experts) {
  // Only the tables of this format have rotation flags.
  if (profile.h32 == "refuse" || ref.format != WeightFormat::q3_1_rocmfp3_mix)
    return large(x, ref);
  Value rotations = create<RotationsOp>(i32({ref.shape[0]}), ref.name);
  if (profile.books == "float")
    return create<RotateOp>(x.f32.getType(), x.f32, experts, rotations);
  return create<QuantizeOp>(
      Q8Type::get(b.getContext(), activationShape(x.f32.getType())), x.f32,
      experts, rotations, rowsOf(1));
}

Value PhaseBuilder::largeLinear(Activations &x, const WeightRef &ref,
                                int64_t ratio) {
  Value input = large(x, ref, ratio);
  observe(x.f32, ref, ratio);
  int64_t rows = activationShape(input.getType())[0];
  Value matrix = weight(ref), table = books(ref);
  return create<LinearOp>(f32({rows, ref.shape[0]}), input, matrix, table,
                          rowsOf(ratio));
}

Value PhaseBuilder::exactLinear(Value x, const WeightRef &ref) {
  observe(x, ref);
  return create<LinearOp>(f32({T, ref.shape[0]}), x, weight(ref), Value(),
                          rowsOf(1));
}

Value PhaseBuilder::reshape(Value x, ArrayRef<int64_t> shape) {
  return create<ReshapeOp>(f32(shape), x);
}

/// Storage of cached rows: the profile's, except that index rows of an fp8
/// cache are FP4, as the model was trained.
RowStorage PhaseBuilder::rowStorage(bool indexRow) {
  if (profile.kv == "f32")
    return RowStorage::f32;
  if (profile.kv == "f16")
    return RowStorage::f16;
  return indexRow ? RowStorage::fp4 : RowStorage::fp8;
}

/// A row as every reader sees it: simulated as in training, then rounded once
/// to its storage.
Value PhaseBuilder::storedRow(Value row, bool indexRow, int64_t ratio) {
  int64_t width = activationShape(row.getType())[1];
  if (profile.simulate) {
    if (indexRow)
      row = create<HadamardOp>(row.getType(), row, rowsOf(ratio));
    row = create<SimulateOp>(
        row.getType(), row, indexRow ? SimulateMode::fp4 : SimulateMode::fp8,
        indexRow ? width : width - h.ropeDims, rowsOf(ratio));
  }
  RowStorage storage = rowStorage(indexRow);
  if (storage == RowStorage::f32)
    return row;
  return create<RoundRowOp>(row.getType(), row, storage, rowsOf(ratio));
}

/// One site: collapse the streams, run the sublayer, mix its result back.
Value PhaseBuilder::hyperConnection(
    Value streams, const HyperConnectionWeights &site, const WeightRef &gain,
    StringRef point, llvm::function_ref<Value(Activations)> sublayer) {
  Value fn = weight(site.fn), scale = weight(site.scale),
        base = weight(site.base);
  observe(streams, site.fn);
  auto pre = create<HcPreOp>(f32({T, h.hidden}), f32({T, h.streams}),
                             f32({T, h.streams, h.streams}), streams, fn, scale,
                             base, real(h.rmsEps), real(h.hcEps),
                             b.getI64IntegerAttr(h.sinkhornIterations));
  Value x = norm(pre.getX(), gain);
  trace((point + "_in").str(), x);
  Value y = sublayer({x, {}});
  trace((point + "_out").str(), y);
  return create<HcPostOp>(streams.getType(), y, streams, pre.getPost(),
                          pre.getComb());
}

/// Pools the windows that the step completes and stores their rows; returns
/// the state of rows.
Value PhaseBuilder::compressor(Value x, const CompressorWeights &weights,
                               StringRef name, int64_t width, bool indexRow) {
  int64_t ratio = h.compressRatios[layer];
  bool overlap = h.hasIndexer(layer);
  int64_t channels = (overlap ? 2 : 1) * width;
  // A rollback of verifyWidth tokens must find every token of the windows
  // that it reopens.
  int64_t ringRows =
      llvm::PowerOf2Ceil((overlap ? 2 : 1) * ratio - 1 + profile.verifyWidth);
  Value kvRing =
      state((name + "_kv_ring").str(), ringRows, channels, RowStorage::f32);
  Value gateRing =
      state((name + "_gate_ring").str(), ringRows, channels, RowStorage::f32);
  Value rows = state((name + "_rows").str(), profile.context / ratio, width,
                     rowStorage(indexRow), ratio);

  Value kv = exactLinear(x, weights.kv);
  Value gate = exactLinear(x, weights.gate);
  gate = create<ApeAddOp>(gate.getType(), gate, weight(weights.ape));
  Value row = create<CompressOp>(
      f32({static_cast<int64_t>(llvm::divideCeil(T, ratio)), width}), kv, gate,
      kvRing, gateRing, ratio, overlap);
  create<AppendOp>(kv, kvRing, rowsOf(1));
  create<AppendOp>(gate, gateRing, rowsOf(1));
  row = norm(row, weights.norm, ratio);
  row = rope(row, /*inverse=*/false, ratio);
  row = storedRow(row, indexRow, ratio);
  create<AppendOp>(row, rows, rowsOf(ratio));
  return rows;
}

/// The lightning indexer: which compressed rows each query reads.
Value PhaseBuilder::indexer(Value x, Activations &qr, int64_t rowCount) {
  const LayerWeights &lw = w.layers[layer];
  int64_t ratio = h.compressRatios[layer];
  Value keys = compressor(x, *lw.indexCompressor, "index", h.indexDim,
                          /*indexRow=*/true);
  Value q =
      reshape(largeLinear(qr, *lw.indexQB), {T, h.indexHeads, h.indexDim});
  q = rope(q);
  if (profile.simulate) {
    q = create<HadamardOp>(q.getType(), q, rowsOf(1));
    q = create<SimulateOp>(q.getType(), q, SimulateMode::fp4, h.indexDim,
                           rowsOf(1));
  }
  Value headWeights = exactLinear(x, *lw.indexProj);
  double scale = 1 / std::sqrt(double(h.indexDim) * double(h.indexHeads));
  Value scores = create<IndexScoreOp>(f32({T, rowCount}), q, headWeights, keys,
                                      real(scale), b.getI64IntegerAttr(ratio),
                                      b.getI64IntegerAttr(h.indexTopK));
  return create<TopKOp>(i32({T, h.indexTopK}), scores,
                        b.getI64IntegerAttr(h.indexTopK),
                        b.getI64IntegerAttr(ratio));
}

Value PhaseBuilder::attention(Activations x) {
  const LayerWeights &lw = w.layers[layer];
  int64_t ratio = h.compressRatios[layer];
  ropeTable = ratio ? compressedRope : slidingRope;

  Activations qr{norm(largeLinear(x, lw.qA), lw.qANorm), {}};
  Value q = reshape(largeLinear(qr, lw.qB), {T, h.heads, h.headDim});
  q = create<RmsNormOp>(q.getType(), q, Value(), real(h.rmsEps), rowsOf(1));
  q = rope(q);

  Value kv = norm(largeLinear(x, lw.kv), lw.kvNorm);
  kv = storedRow(rope(kv), /*indexRow=*/false, 1);

  Value compressed, selected;
  if (ratio)
    compressed = compressor(x.f32, *lw.compressor, "compressed", h.headDim,
                            /*indexRow=*/false);
  if (h.hasIndexer(layer))
    selected = indexer(x.f32, qr, profile.context / ratio);

  Value ring =
      state("raw_ring", llvm::PowerOf2Ceil(h.window - 1 + profile.verifyWidth),
            h.headDim, rowStorage(/*indexRow=*/false));
  Value o = create<AttendOp>(
      q.getType(), q, kv, ring, weight(lw.sinks), compressed, selected,
      b.getI64IntegerAttr(h.window), b.getI64IntegerAttr(ratio),
      real(1 / std::sqrt(double(h.headDim))));
  // After attention: a step longer than the ring would overwrite rows that
  // its first tokens still read.
  create<AppendOp>(kv, ring, rowsOf(1));

  Activations groups{
      reshape(rope(o, /*inverse=*/true),
              {T, h.outputGroups, h.heads / h.outputGroups * h.headDim}),
      {}};
  Value input = large(groups, lw.outputA);
  observe(groups.f32, lw.outputA);
  Value matrix = weight(lw.outputA), table = books(lw.outputA);
  Activations z{create<GroupedLinearOp>(f32({T, lw.outputA.shape[0]}), input,
                                        matrix, table),
                {}};
  return largeLinear(z, lw.outputB);
}

Value PhaseBuilder::sharedExpert(Activations &x) {
  const LayerWeights &lw = w.layers[layer];
  Value gate = largeLinear(x, lw.gateShared);
  Value up = largeLinear(x, lw.upShared);
  Activations hidden{create<SwigluOp>(gate.getType(), gate, up,
                                      real(h.clampSharedExpert[layer])),
                     {}};
  return largeLinear(hidden, lw.downShared);
}

Value PhaseBuilder::mixtureOfExperts(Activations x) {
  const LayerWeights &lw = w.layers[layer];
  int64_t used = profile.experts ? profile.experts : h.expertsUsed;
  Value logits = exactLinear(x.f32, lw.router);
  Value experts, weights;
  if (lw.hashTable) {
    auto route =
        create<HashRouteOp>(i32({T, used}), f32({T, used}), logits, tokens,
                            weight(*lw.hashTable), real(h.expertScale));
    experts = route.getExperts();
    weights = route.getWeights();
  } else {
    auto route = create<RouteOp>(i32({T, used}), f32({T, used}), logits,
                                 weight(*lw.routerBias), real(h.expertScale));
    experts = route.getExperts();
    weights = route.getWeights();
  }
  Value input = large(x, lw.gateExperts);
  observe(x.f32, lw.gateExperts, 1, experts);
  observe(x.f32, lw.upExperts, 1, experts);
  Value gateWeight = weight(lw.gateExperts), upWeight = weight(lw.upExperts);
  Value gateBooks = books(lw.gateExperts), upBooks = books(lw.upExperts);
  RankedTensorType productType = f32({T, used, h.expertWidth});
  auto products =
      create<ExpertGateUpOp>(productType, productType, input, experts,
                             gateWeight, upWeight, gateBooks, upBooks,
                             /*pairs=*/Value());
  Activations hidden{create<SwigluOp>(productType, products.getGateOut(),
                                      products.getUpOut(),
                                      real(h.clampExperts[layer])),
                     {}};
  Value downInput = expertInput(hidden, lw.downExperts, experts);
  observe(hidden.f32, lw.downExperts, 1, experts);
  Value downWeight = weight(lw.downExperts), downBooks = books(lw.downExperts);
  Value y = create<ExpertDownOp>(f32({T, used, h.hidden}), downInput, experts,
                                 downWeight, downBooks, /*pairs=*/Value());
  return create<CombineOp>(f32({T, h.hidden}), y, weights, sharedExpert(x));
}

void PhaseBuilder::buildLayer() {
  const LayerWeights &lw = w.layers[layer];
  streams = hyperConnection(streams, lw.hcAttn, lw.attnNorm, "attn",
                            [&](Activations x) { return attention(x); });
  streams = hyperConnection(streams, lw.hcFfn, lw.ffnNorm, "ffn",
                            [&](Activations x) { return mixtureOfExperts(x); });
  trace("streams", streams);
}

func::FuncOp PhaseBuilder::build(StringRef name) {
  OpBuilder::InsertionGuard guard(b);
  RankedTensorType logitsType = f32({outputRows, h.vocab});
  RankedTensorType argmaxType = i32({outputRows});
  auto func = b.create<func::FuncOp>(
      loc(), name, b.getFunctionType({i32({T})}, {logitsType, argmaxType}));
  b.setInsertionPointToStart(func.addEntryBlock());
  tokens = func.getArgument(0);

  auto table = [&](StringRef tableName, double base, double factor) -> Value {
    return create<RopeTableOp>(
        f32({profile.context, h.ropeDims}), b.getStringAttr(tableName),
        b.getF64FloatAttr(base), b.getF64FloatAttr(factor),
        b.getI64IntegerAttr(h.yarnOriginal), b.getF64FloatAttr(h.yarnBetaFast),
        b.getF64FloatAttr(h.yarnBetaSlow));
  };
  slidingRope = table("rope_sliding", h.ropeBase, 1);
  compressedRope = table("rope_compressed", h.compressRopeBase, h.yarnFactor);

  streams = create<EmbedOp>(f32({T, h.streams, h.hidden}), tokens,
                            weight(w.embedding));
  for (layer = 0; layer < h.layers; ++layer)
    buildLayer();
  layer = -1;

  Value last = streams;
  if (outputRows < T || T > 1)
    last =
        create<TakeOutputsOp>(f32({outputRows, h.streams, h.hidden}), streams);
  Value fn = weight(w.head.fn), scale = weight(w.head.scale),
        base = weight(w.head.base);
  observe(last, w.head.fn, /*ratio=*/0);
  Value x = create<HeadCollapseOp>(f32({outputRows, h.hidden}), last, fn, scale,
                                   base, real(h.rmsEps), real(h.hcEps));
  Activations normed{norm(x, w.outputNorm, /*ratio=*/0), {}};
  Value logits = largeLinear(normed, w.output, /*ratio=*/0);
  Value argmax = create<ArgmaxOp>(argmaxType, logits);
  b.create<func::ReturnOp>(loc(), ValueRange{logits, argmax});
  return func;
}

static Status checkProfile(const Hparams &h, const Profile &profile,
                           const Gguf &gguf) {
  DS4_TRY(profile.check());
  if (profile.context > h.contextLength)
    return invalidInput(
        fmt::format("context = {} exceeds the {} positions of {}",
                    profile.context, h.contextLength, gguf.path()));
  if (profile.experts > h.expertsUsed)
    return invalidInput(
        fmt::format("experts = {} exceeds the {} that {} was trained with",
                    profile.experts, h.expertsUsed, gguf.path()));
  for (int64_t ratio : h.compressRatios)
    if (ratio > profile.context)
      return invalidInput(fmt::format(
          "context = {} is shorter than a compressor window of {} tokens",
          profile.context, ratio));
  return Status::ok();
}

Result<OwningOpRef<ModuleOp>> buildDeepSeekV4(const Gguf &gguf,
                                              const Profile &profile,
                                              MLIRContext *context) {
  DS4_ASSIGN(Hparams hparams, readHparams(gguf));
  DS4_TRY(checkProfile(hparams, profile, gguf));
  DS4_ASSIGN(ModelWeights weights, mapWeights(gguf, hparams));

  context->loadDialect<Ds4Dialect, func::FuncDialect>();
  OpBuilder b(context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(b.getUnknownLoc());
  SmallVector<NamedAttribute> settings;
  for (const auto &[key, value] : profile.text())
    settings.push_back(b.getNamedAttr(key, b.getStringAttr(value)));
  ModuleOp op = *module;
  op->setAttr("ds4.model_name", b.getStringAttr(hparams.name));
  op->setAttr("ds4.fingerprint", b.getStringAttr(gguf.fingerprint()));
  op->setAttr("ds4.layers", b.getI64IntegerAttr(hparams.layers));
  op->setAttr("ds4.vocab", b.getI64IntegerAttr(hparams.vocab));
  op->setAttr("ds4.context", b.getI64IntegerAttr(profile.context));
  op->setAttr("ds4.most_rollback", b.getI64IntegerAttr(profile.verifyWidth));
  op->setAttr("ds4.profile", b.getDictionaryAttr(settings));

  b.setInsertionPointToEnd(op.getBody());
  int64_t chunk = profile.prefillChunk;
  PhaseBuilder(b, hparams, weights, profile, 1, 1).build("decode");
  if (int64_t width = profile.verifyWidth; width > 1 && width < chunk)
    PhaseBuilder(b, hparams, weights, profile, width, width).build("verify");
  PhaseBuilder(b, hparams, weights, profile, chunk,
               profile.logits == "all" ? chunk : 1)
      .build("prefill");
  if (failed(verify(op)))
    return Error{ErrorCode::invalidInput,
                 fmt::format("{}: the graph of this model does not verify "
                             "(see the message above)",
                             gguf.path())};
  return module;
}

} // namespace ds4
