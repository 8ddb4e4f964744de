// LaunchSpec.cpp - from the ops of a launch to parts, heads, followers and
// tails. What a body can do is asked of the kernel table, never of the op.
#include "codegen/LaunchSpec.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"

#include <algorithm>

using namespace mlir;

namespace ds4::codegen {

using namespace ir;

uint32_t LaunchPart::blocks() const {
  uint32_t sum = 0;
  for (const LaunchHead &head : heads)
    sum += head.body.gridX;
  return sum;
}

std::vector<const KernelSpec *> LaunchSpec::bodies() const {
  std::vector<const KernelSpec *> all;
  for (const LaunchPart &part : parts) {
    for (const LaunchHead &head : part.heads) {
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

/// Values of a row of what `op` writes; all its results have as many.
int64_t rowValues(Operation *op) {
  Value rows = op->getNumResults() ? op->getResult(0) : op->getOperand(0);
  int64_t values = 1;
  for (int64_t size : activationShape(rows.getType()).drop_front())
    values *= size;
  return values;
}

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
  /// The ops of this launch that make operands of `op`.
  SmallVector<Operation *> producers(Operation *op);

  Operation *launch;
  LaunchSpec spec;
  std::vector<Operation *> ops;
  llvm::DenseMap<Operation *, KernelSpec> preferred;
  /// The head in whose blocks an op runs; null: in a tail.
  llvm::DenseMap<Operation *, size_t> headOf;
};

} // namespace

SmallVector<Operation *> LaunchBuilder::producers(Operation *op) {
  SmallVector<Operation *> found;
  for (Value operand : op->getOperands()) {
    Operation *producer = storageOf(operand).getDefiningOp();
    if (producer && preferred.contains(producer))
      found.push_back(producer);
  }
  return found;
}

LogicalResult LaunchBuilder::collect() {
  if (auto group = dyn_cast<LaunchOp>(launch)) {
    spec.name = group.getName().str();
    for (Operation &op : group.getBody().front().without_terminator())
      if (!isFree(&op))
        ops.push_back(&op);
    if (ops.empty())
      return group.emitOpError() << "is empty";
  } else {
    spec.name = launch->getName().stripDialect().str();
    ops.push_back(launch);
  }
  for (Operation *op : ops) {
    FailureOr<KernelSpec> body = kernelFor(op);
    if (failed(body))
      return failure();
    if (body->reportsNan) {
      if (spec.selection)
        return op->emitOpError() << "is the second selection of its launch; a "
                                    "NaN could not be told from the first's";
      spec.selection = op;
    }
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
      first.tile * first.gridX != values)
    return false;
  for (Operation *producer : producers(op))
    if (rowValues(producer) != values)
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
    part.heads[first->second].followers.push_back(std::move(body));
    headOf[op] = first->second;
    return success();
  }
  // One block does all of a row.
  FailureOr<KernelSpec> last = kernelFor(op, {spec.threads, rowValues(op)});
  if (failed(last))
    return failure();
  for (const LaunchHead &head : part.heads)
    if (head.body.ratio != last->ratio && spec.gridY > 1)
      return op->emitOpError() << "has other rows than what it follows in its "
                                  "launch, which a step of several tokens "
                                  "cannot do";
  part.tail.push_back(std::move(*last));
  return success();
}

LogicalResult LaunchBuilder::finish() {
  llvm::DenseSet<Value> known;
  for (const KernelSpec *body : spec.bodies()) {
    for (Value value : body->args)
      if (value && known.insert(storageOf(value)).second)
        spec.args.push_back(storageOf(value));
    spec.weightBytesPerToken += body->weightBytesPerToken;
  }
  for (const LaunchPart &part : spec.parts) {
    spec.gridX += part.blocks();
    spec.ticketParts += part.takesTickets();
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
  }
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
