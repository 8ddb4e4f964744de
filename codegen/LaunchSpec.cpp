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
    sum += head.arrivals();
  return sum;
}

uint32_t LaunchPart::helpers(uint32_t columns) const {
  for (const KernelSpec &body : tail) {
    if (body.columns > 1 || body.ratio != tail.front().ratio)
      return 1;
    for (Value value : body.args)
      if (value && isa<StateType>(value.getType()))
        return 1; // of which a row may need what another writes
  }
  return std::max<uint32_t>(1, std::min(columns, arrivals() / 2));
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
      for (const KernelSpec &body : head.grouped)
        all.push_back(&body);
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
  bool followsTile(Operation *op, int64_t tile, KernelSpec &body);
  bool followsGroup(Operation *op, LaunchHead &head, KernelSpec &body);
  LogicalResult finish();
  LogicalResult splitSpread();
  /// The ops that make what `op` reads, or whose bodies do.
  SmallVector<Operation *> producers(Operation *op) {
    SmallVector<Operation *> makers;
    for (Operation *maker : producersAmong(all, op)) {
      if (Operation *body = coveredBy.lookup(maker))
        maker = body;
      if (maker != op && !llvm::is_contained(makers, maker))
        makers.push_back(maker);
    }
    return makers;
  }

  Operation *launch;
  LaunchSpec spec;
  llvm::SetVector<Operation *> all; ///< that have kernels
  llvm::SetVector<Operation *> ops; ///< without those that others cover
  llvm::DenseMap<Operation *, Operation *> coveredBy;
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
        all.insert(&op);
    if (all.empty())
      return group.emitOpError() << "is empty";
  } else {
    spec.name = launch->getName().stripDialect().str();
    all.insert(launch);
  }
  for (Operation *op : all) {
    FailureOr<KernelSpec> body = kernelFor(op);
    if (failed(body))
      return failure();
    if (body->reportsNan || (body->spread && body->spread->reportsNan))
      spec.selection = op;
    for (Operation *other : body->covered)
      coveredBy[other] = op;
    preferred.try_emplace(op, std::move(*body));
  }
  for (Operation *op : all)
    if (!coveredBy.contains(op))
      ops.insert(op);
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
  if (head.group > 1)
    return false;
  return followsTile(op, first.tile, body);
}

/// Whether `op` can run on tiles of so many values; completes its spec.
bool LaunchBuilder::followsTile(Operation *op, int64_t tile, KernelSpec &body) {
  ScopedDiagnosticHandler quiet(op->getContext(),
                                [](Diagnostic &) { return success(); });
  FailureOr<KernelSpec> placed = kernelFor(op, {spec.threads, tile});
  if (failed(placed) || !placed->local || placed->tile == 0 ||
      tile % placed->tile != 0)
    return false;
  body = std::move(*placed);
  return true;
}

/// Whether `op` can run in the last of a group of neighbouring blocks of
/// `head`, fewer than all of them: on a GPU, where one block would take long
/// for all. Sets the size of the groups.
bool LaunchBuilder::followsGroup(Operation *op, LaunchHead &head,
                                 KernelSpec &body) {
  const KernelSpec &first = head.body;
  const int64_t values = rowValues(op);
  if (!isForGpu(launch) || !body.local || body.ratio != first.ratio ||
      first.spread || first.asides || first.columns > 1 || first.tile == 0 ||
      first.tile * first.gridX != values)
    return false;
  for (Operation *producer : producers(op))
    if (rowValues(producer) != values)
      return false;
  for (Operation *other : ops)
    if (other != op && shareState(other, op))
      return false;
  if (head.group > 1)
    return followsTile(op, head.group * first.tile, body);
  for (uint32_t group = 2; group < first.gridX; group *= 2)
    if (first.gridX % group == 0 && followsTile(op, group * first.tile, body)) {
      head.group = group;
      return true;
    }
  return false;
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
    if (body->covered != preferred.find(op)->second.covered)
      return op->emitOpError()
             << "covers other ops in blocks of " << spec.threads
             << " threads: its launch has an op that needs such blocks";
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
  if (oneHead) {
    LaunchHead &head = part.heads[first->second];
    const bool follow = follows(op, head, body);
    if (follow || followsGroup(op, head, body)) {
      std::vector<KernelSpec> &bodies = follow ? head.followers : head.grouped;
      append(bodies, follow && bodies.empty() ? &head.body : nullptr,
             std::move(body));
      headOf[op] = first->second;
      return success();
    }
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
    spec.resident = std::max(spec.resident, body->resident);
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

/// Makes the spread of a head that is to be apart a launch in front.
LogicalResult LaunchBuilder::splitSpread() {
  bool apart = false;
  for (const LaunchPart &part : spec.parts)
    for (const LaunchHead &head : part.heads)
      apart |= head.body.spread && head.body.apart;
  if (!apart)
    return success();
  if (spec.parts.size() != 1 || spec.parts.front().heads.size() != 1)
    return launch->emitOpError()
           << "has an op whose parts are a launch of their own beside others: "
              "fuse it with what reads its result only";
  KernelSpec &body = spec.parts.front().heads.front().body;
  auto before = std::make_shared<LaunchSpec>();
  before->name = body.spread->kernel;
  before->threads = body.spread->block;
  before->gridX = body.spread->gridX;
  before->gridY = spec.gridY;
  before->ratio = spec.ratio;
  before->columns = spec.columns;
  before->dependent = spec.dependent;
  before->sharedBytes = body.spread->sharedBytes;
  before->scratchBytes = body.spread->scratchBytes;
  for (Value value : body.spread->args)
    if (value && !llvm::is_contained(before->args, storageOf(value)))
      before->args.push_back(storageOf(value));
  before->parts.push_back({{{std::move(*body.spread), {}}}, {}});
  body.spread = nullptr;
  spec.before = std::move(before);
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
  if (failed(splitSpread()) || failed(finish()))
    return failure();
  return std::move(spec);
}

FailureOr<LaunchSpec> launchFor(Operation *op) {
  return LaunchBuilder(op).build();
}

} // namespace ds4::codegen
