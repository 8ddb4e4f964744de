// LaunchSpec.cpp - from the ops of a launch to parts, heads, followers and
// tails. What a body can do is asked of the kernel table, never of the op.
#include "codegen/LaunchSpec.h"

#include "codegen/ElementwiseEmitter.h"
#include "ir/Launch.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;

namespace ds4::codegen {

using namespace ir;

uint32_t LaunchPart::blocks() const {
  uint32_t sum = 0;
  for (const LaunchHead &head : heads)
    sum += head.blocks();
  return sum;
}

uint32_t LaunchPart::arrivals() const {
  uint32_t sum = 0;
  for (const LaunchHead &head : heads)
    sum += head.body.gridX;
  return sum;
}

uint32_t LaunchPart::tickets() const {
  uint32_t sum = !tail.empty() && arrivals() > 1;
  for (const LaunchHead &head : heads)
    sum += head.tickets();
  return sum;
}

std::vector<const KernelSpec *> LaunchSpec::bodies() const {
  std::vector<const KernelSpec *> all;
  for (const LaunchPart &part : parts) {
    for (const LaunchHead &head : part.heads) {
      if (head.body.spread)
        all.push_back(head.body.spread.get());
      all.push_back(&head.body);
      for (const KernelSpec &follower : head.followers)
        all.push_back(&follower);
    }
    for (const KernelSpec &body : part.tail)
      all.push_back(&body);
  }
  return all;
}

namespace {

class LaunchBuilder {
public:
  explicit LaunchBuilder(Operation *launch) : launch(launch) {}
  FailureOr<LaunchSpec> build();

private:
  LogicalResult collect();
  LogicalResult chooseThreads();
  LogicalResult place(Operation *op, LaunchPart &part);
  bool follows(Operation *op, LaunchHead &head, KernelSpec &body);
  LogicalResult finish();
  SmallVector<Operation *> producers(Operation *op) {
    return producersAmong(ops, op);
  }

  Operation *launch;
  LaunchSpec spec;
  llvm::SetVector<Operation *> ops;
  llvm::DenseMap<Operation *, KernelSpec> preferred;
  /// The head in whose blocks an op runs; null: in a tail.
  llvm::DenseMap<Operation *, size_t> headOf;
};

} // namespace

LogicalResult LaunchBuilder::collect() {
  if (auto group = dyn_cast<LaunchOp>(launch)) {
    spec.name = group.getName().str();
    for (Operation &op : group.getBody().front().without_terminator())
      if (!isFree(&op))
        ops.insert(&op);
    if (ops.empty())
      return group.emitOpError() << "is empty";
  } else {
    spec.name = launch->getName().stripDialect().str();
    ops.insert(launch);
  }
  for (Operation *op : ops) {
    FailureOr<KernelSpec> body = kernelFor(op);
    if (failed(body))
      return failure();
    if (body->reportsNan || (body->spread && body->spread->reportsNan))
      spec.selection = op;
    preferred.try_emplace(op, std::move(*body));
  }
  return success();
}

/// Heads decide, as they have most to do; all bodies must be able to.
LogicalResult LaunchBuilder::chooseThreads() {
  uint32_t most = 1024;
  for (Operation *op : ops) {
    const KernelSpec &body = preferred.find(op)->second;
    if (producers(op).empty())
      spec.threads = std::max(spec.threads, body.block);
    most = std::min(most, body.mostThreads);
  }
  spec.threads = std::min(spec.threads, most);
  return success();
}

/// Whether `op` can run in the blocks of `head`, each on its tile; completes
/// its spec.
bool LaunchBuilder::follows(Operation *op, LaunchHead &head, KernelSpec &body) {
  const KernelSpec &first = head.body;
  const int64_t values = rowValues(op);
  if (!body.local || body.ratio != first.ratio || first.tile == 0 ||
      first.tile * (first.gridX - first.asides) != values)
    return false;
  for (Operation *producer : producers(op))
    if (rowValues(producer) != values)
      return false;
  // A tile is of the first result.
  if (first.asides)
    for (Value operand : op->getOperands())
      if (auto made = dyn_cast<OpResult>(storageOf(operand));
          made && made.getResultNumber() > 0)
        return false;
  // What comes before it and touches its cache may be in the tail.
  for (Operation *other : ops)
    if (other != op && shareState(other, op))
      return false;
  Placement placement{spec.threads, first.tile};
  ScopedDiagnosticHandler quiet(op->getContext(),
                                [](Diagnostic &) { return success(); });
  FailureOr<KernelSpec> placed = kernelFor(op, placement);
  if (failed(placed) || !placed->local || placed->tile == 0 ||
      first.tile % placed->tile != 0)
    return false;
  body = std::move(*placed);
  return true;
}

/// Adds a body behind those of `bodies`, or behind `before` if there are none;
/// elementwise ops that follow one another become one loop.
static void append(std::vector<KernelSpec> &bodies, KernelSpec *before,
                   KernelSpec &&body) {
  KernelSpec *last = bodies.empty() ? before : &bodies.back();
  if (last && canJoin(*last, body))
    join(*last, body);
  else
    bodies.push_back(std::move(body));
}

LogicalResult LaunchBuilder::place(Operation *op, LaunchPart &part) {
  const SmallVector<Operation *> made = producers(op);
  if (made.empty()) {
    FailureOr<KernelSpec> body = kernelFor(op, {spec.threads, 0});
    if (failed(body))
      return failure();
    headOf[op] = part.heads.size();
    part.heads.push_back({std::move(*body), {}});
    return success();
  }
  const auto first = headOf.find(made.front());
  const bool oneHead =
      first != headOf.end() && llvm::all_of(made, [&](Operation *producer) {
        const auto it = headOf.find(producer);
        return it != headOf.end() && it->second == first->second;
      });
  KernelSpec body = preferred.find(op)->second;
  if (oneHead && follows(op, part.heads[first->second], body)) {
    LaunchHead &head = part.heads[first->second];
    append(head.followers, head.followers.empty() ? &head.body : nullptr,
           std::move(body));
    headOf[op] = first->second;
    return success();
  }
  // One block does all of a row.
  FailureOr<KernelSpec> last = kernelFor(op, {spec.threads, rowValues(op)});
  if (failed(last))
    return failure();
  append(part.tail, nullptr, std::move(*last));
  return success();
}

LogicalResult LaunchBuilder::finish() {
  llvm::DenseSet<Value> known;
  for (const KernelSpec *body : spec.bodies()) {
    spec.sharedBytes = std::max(spec.sharedBytes, body->sharedBytes);
    for (Value value : body->args)
      if (value && known.insert(storageOf(value)).second)
        spec.args.push_back(storageOf(value));
    spec.scratchBytes = std::max(spec.scratchBytes, body->scratchBytes);
  }
  for (const LaunchPart &part : spec.parts) {
    spec.gridX += part.blocks();
    spec.tickets += part.tickets();
  }
  return success();
}

FailureOr<LaunchSpec> LaunchBuilder::build() {
  if (failed(collect()) || failed(chooseThreads()))
    return failure();
  llvm::EquivalenceClasses<Operation *> connected;
  for (Operation *op : ops) {
    connected.insert(op);
    for (Operation *producer : producers(op))
      connected.unionSets(producer, op);
    const KernelSpec &body = preferred.find(op)->second;
    spec.gridY = std::max(spec.gridY, body.gridY);
    if (body.columns > 1) {
      if (spec.columns > 1 && spec.columns != body.columns)
        return op->emitOpError()
               << "does " << body.columns << " rows at once, another op of its "
               << "launch " << spec.columns;
      spec.columns = body.columns;
    }
  }
  spec.gridY = llvm::divideCeil(spec.gridY, spec.columns);
  spec.dependent = isForGpu(launch);
  // Rows of tokens are the most; a launch that has any walks those.
  spec.ratio = preferred.find(ops.front())->second.ratio;
  for (Operation *op : ops)
    if (preferred.find(op)->second.ratio != spec.ratio)
      spec.ratio = 1;
  llvm::MapVector<Operation *, LaunchPart> parts;
  for (Operation *op : ops)
    if (failed(place(op, parts[connected.getLeaderValue(op)])))
      return failure();
  for (auto &[leader, part] : parts)
    spec.parts.push_back(std::move(part));
  if (failed(finish()))
    return failure();
  return std::move(spec);
}

FailureOr<LaunchSpec> launchFor(Operation *op) {
  return LaunchBuilder(op).build();
}

} // namespace ds4::codegen
