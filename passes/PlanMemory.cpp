// PlanMemory.cpp - arena offsets by liveness (see Passes.td). Results first
// take over what they may overwrite (ir/Launch.h), then greedy by size: large
// buffers first, each at the lowest gap among the placed buffers that are live
// at the same time. Quadratic in the buffers of a function, which is a few
// thousand at most.
#include "passes/PlanMemory.h"

#include "passes/Passes.h"

#include "ir/Launch.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;

namespace ds4 {

#define GEN_PASS_DEF_PLANMEMORY
#include "passes/Passes.h.inc"

using namespace ir;

namespace {

/// Alignment of buffers: what devices' widest loads and tiles ask for.
constexpr int64_t kAlignment = 256;

/// An activation, or several of which each takes the bytes of the one before:
/// its size and the ops (by number) from which and up to which it must keep its
/// bytes.
struct Buffer {
  SmallVector<Value, 1> values;
  int64_t bytes = 0;
  int64_t first = 0, last = 0;
  int64_t offset = 0;

  bool overlaps(const Buffer &other) const {
    return first <= other.last && other.first <= last;
  }
};

class PlanMemoryPass : public impl::PlanMemoryBase<PlanMemoryPass> {
public:
  using PlanMemoryBase::PlanMemoryBase;

private:
  void runOnOperation() override;
  LogicalResult collect(func::FuncOp function, std::vector<Buffer> &buffers);
  /// The buffer that the op's result can take over, or null.
  Buffer *replaced(Operation *op, std::vector<Buffer> &buffers);

  llvm::DenseMap<Value, size_t> bufferOf; ///< by storage
};

} // namespace

std::optional<int64_t> activationBytes(Type type) {
  if (auto q8 = dyn_cast<Q8Type>(type)) {
    int64_t rows = 1;
    for (int64_t size : q8.getShape().drop_back())
      rows *= size;
    return rows * static_cast<int64_t>(q8.getRowBytes());
  }
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() ||
      !tensor.getElementType().isIntOrFloat())
    return std::nullopt;
  return tensor.getNumElements() *
         llvm::divideCeil(tensor.getElementTypeBitWidth(), 8);
}

/// Whether anybody but `reader` reads `value`, of this storage, in the op of
/// the function that holds `reader` or later. Trace points copy what they name
/// after the launch that makes it.
static bool isReadElsewhere(Value value, Operation *reader) {
  Operation *const here = reader->getParentOfType<LaunchOp>()
                              ? reader->getParentOfType<LaunchOp>()
                              : reader;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (isa<TraceOp, ObserveOp>(user))
      return true;
    if (auto yield = dyn_cast<YieldOp>(user)) {
      if (isReadElsewhere(
              yield->getParentOp()->getResult(use.getOperandNumber()), reader))
        return true;
      continue;
    }
    if (isa<ReshapeOp>(user)) {
      if (isReadElsewhere(user->getResult(0), reader))
        return true;
      continue;
    }
    Operation *const outer = user->getParentOfType<LaunchOp>()
                                 ? user->getParentOfType<LaunchOp>()
                                 : user;
    if (user != reader && !outer->isBeforeInBlock(here))
      return true;
  }
  return false;
}

Buffer *PlanMemoryPass::replaced(Operation *op, std::vector<Buffer> &buffers) {
  Value operand = overwritable(op);
  if (!operand || isReadElsewhere(storageOf(operand), op))
    return nullptr;
  const auto it = bufferOf.find(storageOf(operand));
  return it == bufferOf.end() ? nullptr : &buffers[it->second];
}

LogicalResult PlanMemoryPass::collect(func::FuncOp function,
                                      std::vector<Buffer> &buffers) {
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return function.emitOpError() << "must have a body of one block";

  bufferOf.clear();
  int64_t number = 0;
  for (Operation &op : function.front()) {
    ++number;
    bool isReturn = isa<func::ReturnOp>(op);
    if (!isReturn && !isa_and_nonnull<Ds4Dialect>(op.getDialect()))
      return op.emitOpError() << "is not an op of the ds4 dialect";
    // The ops of a launch run at one time: what they make and read is live
    // during all of it.
    op.walk([&](Operation *inner) {
      if (isa<TraceOp>(inner))
        return;
      for (Value operand : inner->getOperands())
        if (auto it = bufferOf.find(storageOf(operand)); it != bufferOf.end())
          buffers[it->second].last = number;
    });
    WalkResult walk = op.walk([&](Operation *inner) {
      if (isFree(inner) || isa<LaunchOp>(inner))
        return WalkResult::advance();
      for (Value result : inner->getResults()) {
        std::optional<int64_t> bytes = activationBytes(result.getType());
        if (!bytes) {
          inner->emitOpError()
              << "result " << result.getType() << " has no static size";
          return WalkResult::interrupt();
        }
        if (Buffer *buffer = replaced(inner, buffers)) {
          bufferOf[result] = buffer - buffers.data();
          buffer->values.push_back(result);
          continue;
        }
        bufferOf[result] = buffers.size();
        int64_t size = llvm::alignTo(*bytes, kAlignment);
        buffers.push_back({{result}, size, number, number});
      }
      return WalkResult::advance();
    });
    if (walk.wasInterrupted())
      return failure();
  }
  return success();
}

/// Sets every offset; returns the arena's size.
static int64_t place(std::vector<Buffer> &buffers) {
  std::vector<Buffer *> order;
  for (Buffer &buffer : buffers)
    order.push_back(&buffer);
  std::stable_sort(order.begin(), order.end(),
                   [](Buffer *a, Buffer *b) { return a->bytes > b->bytes; });

  int64_t arenaBytes = 0;
  std::vector<Buffer *> placed; // ascending by offset
  for (Buffer *buffer : order) {
    int64_t offset = 0;
    for (Buffer *other : placed) {
      if (!buffer->overlaps(*other))
        continue;
      if (offset + buffer->bytes <= other->offset)
        break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    buffer->offset = offset;
    arenaBytes = std::max(arenaBytes, offset + buffer->bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), buffer,
                                   [](Buffer *a, Buffer *b) {
                                     return a->offset < b->offset;
                                   }),
                  buffer);
  }
  return arenaBytes;
}

void PlanMemoryPass::runOnOperation() {
  func::FuncOp function = getOperation();
  std::vector<Buffer> buffers;
  if (failed(collect(function, buffers)))
    return signalPassFailure();
  int64_t bytes = place(buffers);

  int64_t unsharedBytes = 0;
  llvm::MapVector<Operation *, SmallVector<int64_t>> offsets;
  for (const Buffer &buffer : buffers)
    for (Value value : buffer.values) {
      offsets[value.getDefiningOp()].push_back(buffer.offset);
      unsharedBytes += buffer.bytes;
    }
  for (const auto &[op, values] : offsets)
    op->setAttr(kOffsetsAttr, DenseI64ArrayAttr::get(&getContext(), values));
  function->setAttr(
      kArenaBytesAttr,
      IntegerAttr::get(IntegerType::get(&getContext(), 64), bytes));
  if (explain)
    function.emitRemark() << "arena of " << bytes << " bytes for "
                          << bufferOf.size() << " activations of "
                          << unsharedBytes << " bytes";
}

} // namespace ds4
