// SessionLoad.cpp - opening is a list of checks, cheapest first: nothing is
// allocated before the bundle, the weights, the CPU and the memory fit.
#include "runtime/Session.h"

#include "runtime/KernelBuild.h"
#include "runtime/RopeTable.h"

#include <fmt/format.h>

#include <algorithm>

namespace ds4 {
namespace {

/// Phases that compute the next tokens of the sequence; they are free to stand
/// in for each other.
constexpr std::string_view kPhases[] = {"decode", "prefill", "verify"};

/// The bundle's object for `target`, or null.
const ObjectDesc *findObject(const Manifest &manifest,
                             std::string_view target) {
  const auto it =
      std::ranges::find(manifest.objects, target, &ObjectDesc::target);
  return it == manifest.objects.end() ? nullptr : &*it;
}

Error noObject(const Manifest &manifest, std::string_view target) {
  std::string others;
  for (const ObjectDesc &object : manifest.objects)
    others += (others.empty() ? "" : ", ") + object.target;
  return invalidInput(
      fmt::format("the bundle is for {}, this device is {}: rebuild with ds4c "
                  "--target={}",
                  others.empty() ? "no target" : others, target, target));
}

Status checkCpu(const ObjectDesc &object) {
#if defined(__x86_64__)
  if (object.cpu.empty() ||
      (object.cpu == "x86-64-v3" && __builtin_cpu_supports("avx2") &&
       __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")))
    return Status::ok();
#else
  if (object.cpu.empty())
    return Status::ok();
#endif
  return invalidInput(fmt::format(
      "the bundle's host kernels need a CPU of level {}, which this machine is "
      "not: run it on a newer CPU (AVX2, FMA, BMI2) or on a GPU target",
      object.cpu));
}

} // namespace

Session::Session(Bundle bundle, std::unique_ptr<Device> device,
                 const SessionOptions &options)
    : bundle(std::move(bundle)), device(std::move(device)), options(options),
      sequence(this->bundle.manifest, this->bundle.plan) {}

Session::~Session() {
  for (void *memory : allocations)
    device->free(memory);
}

/// Weights of a model file.
class FileWeights final : public WeightSource {
public:
  explicit FileWeights(const Gguf &file) : file(file) {}

  std::string name() const override { return file.path(); }
  Result<DecodeTables> tables(const Plan &plan) const override {
    return readDecodeTables(file, plan.rotations.empty() ? Rotations::refuse
                                                         : Rotations::accept);
  }
  Result<LoadStats> load(Device &device, std::span<const WeightTarget> targets,
                         const LoadOptions &options) const override {
    return loadWeights(file, device, targets, options);
  }

private:
  const Gguf &file;
};

Result<std::unique_ptr<Session>> Session::open(Bundle bundle, const Gguf &file,
                                               std::unique_ptr<Device> device,
                                               const SessionOptions &options) {
  if (bundle.manifest.fingerprint == kShapeFingerprint)
    return invalidInput(fmt::format(
        "{} was compiled from a shape ({}) and belongs to no model file: it is "
        "for reading; compile {} with ds4c to run it",
        bundle.path.string(), bundle.manifest.modelName, file.path()));
  if (bundle.manifest.fingerprint != file.fingerprint())
    return invalidInput(fmt::format(
        "{} was compiled for another model file (fingerprint {}, {} has {}): "
        "recompile with ds4c {}",
        bundle.path.string(), bundle.manifest.fingerprint, file.path(),
        file.fingerprint(), file.path()));
  DS4_TRY(matchWeights(file, bundle.plan.weights));
  return open(std::move(bundle), FileWeights(file), std::move(device), options);
}

Result<std::unique_ptr<Session>> Session::open(Bundle bundle,
                                               const WeightSource &source,
                                               std::unique_ptr<Device> device,
                                               const SessionOptions &options) {
  const ObjectDesc *object = findObject(bundle.manifest, device->target());
  std::unique_ptr<RtcCompiler> compiler;
  if (!object) {
    DS4_ASSIGN(compiler, device->compiler());
    if (!compiler)
      return noObject(bundle.manifest, device->target());
  } else if (object->target == "host") {
    DS4_TRY(checkCpu(*object));
  }
  std::unique_ptr<Session> session(
      new Session(std::move(bundle), std::move(device), options));
  session->compiler = std::move(compiler);
  DS4_TRY(session->load(source));
  return session;
}

Result<void *> Session::allocate(uint64_t bytes, std::string_view what) {
  DS4_ASSIGN(void *memory,
             device->allocate(std::max<uint64_t>(bytes, 1), what));
  allocations.push_back(memory);
  return memory;
}

static Error otherFile(const WeightSource &source, std::string_view weight) {
  return invalidInput(fmt::format(
      "{} has no decode table for `{}` as the bundle wants it; the bundle was "
      "compiled for another file: recompile it with ds4c",
      source.name(), weight));
}

Status Session::load(const WeightSource &source) {
  const Plan &plan = bundle.plan;
  need = memoryNeed(plan, options.load.stagingBytes());
  DS4_TRY(admit(need,
                options.availableBytes ? MemoryLimit{*options.availableBytes}
                                       : device->memoryLimit().value_or(
                                             MemoryLimit{availableMemory()}),
                context()));

  // Tables first: they are small and refuse more files than the weights do.
  DecodeTables decode;
  if (!plan.books.empty()) {
    DS4_ASSIGN(decode, source.tables(plan));
  }
  std::map<std::string_view, std::span<const uint8_t>> modes;
  for (const BooksDesc &desc : plan.books) {
    auto table = decode.find(desc.weight);
    if (table == decode.end() || table->second.format != desc.format ||
        table->second.experts != desc.experts)
      return otherFile(source, desc.weight);
    DS4_ASSIGN(void *memory, allocate(desc.bytes(), desc.weight + " (books)"));
    const std::vector<uint8_t> int8 =
        desc.int8 ? table->second.int8Books() : std::vector<uint8_t>();
    const void *source = table->second.books.data();
    DS4_TRY(
        device->copyIn(memory, desc.int8 ? int8.data() : source, desc.bytes()));
    books[desc.weight] = memory;
    modes[desc.weight] = table->second.adaptive;
  }
  for (const RotationsDesc &desc : plan.rotations) {
    auto table = decode.find(desc.weight);
    if (table == decode.end() || table->second.experts != desc.experts)
      return otherFile(source, desc.weight);
    const std::vector<int32_t> flags(table->second.rotated.begin(),
                                     table->second.rotated.end());
    const uint64_t bytes = flags.size() * sizeof(int32_t);
    DS4_ASSIGN(void *memory, allocate(bytes, desc.weight + " (rotations)"));
    DS4_TRY(device->copyIn(memory, flags.data(), bytes));
    rotations[desc.weight] = memory;
  }
  for (const RopeTable &desc : plan.tables) {
    std::vector<float> values = makeRopeTable(desc);
    DS4_ASSIGN(void *memory,
               allocate(values.size() * sizeof(float), desc.name));
    DS4_TRY(
        device->copyIn(memory, values.data(), values.size() * sizeof(float)));
    tables[desc.name] = memory;
  }
  DS4_ASSIGN(void *block, allocate(sequence.bytes(), "states"));
  sequence.place(block);
  states = sequence.pointers();
  DS4_ASSIGN(arena, allocate(need.arena, "activations"));

  std::vector<WeightTarget> targets;
  for (const WeightDesc &desc : plan.weights) {
    DS4_ASSIGN(void *memory, allocate(deviceBytes(desc), desc.name));
    weights[desc.name] = memory;
    auto mode = modes.find(desc.name);
    targets.push_back(
        {&desc, memory,
         mode == modes.end() ? std::span<const uint8_t>() : mode->second});
  }
  // Kernels before weights: a broken object shows at once.
  DS4_TRY(bindAll());
  DS4_ASSIGN(stats, source.load(*device, targets, options.load));
  return Status::ok();
}

Status Session::loadKernels() {
  if (isPrecompiled(bundle.manifest, device->target())) {
    DS4_ASSIGN(const std::vector<KernelCode> kernels,
               readKernels(bundle, device->target()));
    return device->loadKernels(kernels);
  }
  if (const ObjectDesc *object = findObject(bundle.manifest, device->target()))
    return device->loadObject(bundle.path / object->file);
  DS4_ASSIGN(std::vector<KernelCode> kernels,
             buildKernels(bundle, *compiler, Cache::ofUser(), options.build));
  return device->loadKernels(kernels);
}

Status Session::bindAll() {
  DS4_TRY(loadKernels());
  uint32_t capacity = 1;
  size_t launches = 1;
  uint64_t mostTickets = 0;
  for (const Function &function : bundle.plan.functions) {
    if (std::ranges::find(kPhases, function.name) == std::end(kPhases))
      continue;
    phases.push_back(function);
    capacity = std::max(capacity, function.capacity);
    launches = std::max(launches, function.launches.size());
    mostTickets = std::max(mostTickets, function.tickets);
  }
  if (phases.empty())
    return invalidInput(
        "plan.json has neither a decode nor a prefill function; "
        "recompile the bundle with ds4c");
  DS4_ASSIGN(tokens, allocate(capacity * sizeof(int32_t), "token ids"));
  DS4_ASSIGN(step, allocate(sizeof(Step), "step"));
  DS4_ASSIGN(status, allocate(launches * sizeof(StepStatus), "status"));
  clearTickets.resize(mostTickets);
  DS4_ASSIGN(tickets, allocate(mostTickets * sizeof(uint32_t), "tickets"));
  for (const Function &function : phases) {
    DS4_ASSIGN(BoundFunction bound, bind(function));
    boundPhases.push_back(std::move(bound));
  }
  return Status::ok();
}

Result<Session::BoundFunction> Session::bind(const Function &function) {
  BoundFunction bound;
  for (const Launch &launch : function.launches) {
    BoundLaunch &it = bound.launches.emplace_back();
    DS4_ASSIGN(it.kernel, device->kernel(launch.kernel, launch.sharedBytes));
    for (const Arg &arg : launch.args) {
      DS4_ASSIGN(void *pointer, resolve(function, arg, 0));
      it.args.push_back(pointer);
    }
  }
  DS4_ASSIGN(bound.logits,
             resolve(function, function.logits,
                     uint64_t(function.outputs) * vocab() * sizeof(float)));
  DS4_ASSIGN(bound.argmax, resolve(function, function.argmax,
                                   function.outputs * sizeof(int32_t)));
  for (const TracePoint &trace : function.traces) {
    if (trace.afterLaunch >= function.launches.size())
      return invalidInput(fmt::format(
          "plan.json: trace point {} of {} comes after launch {} of {}; "
          "recompile the bundle with ds4c",
          trace.name, function.name, trace.afterLaunch,
          function.launches.size()));
    DS4_ASSIGN(bound.traces.emplace_back(), resolve(function, trace.source, 0));
  }
  for (const Observation &it : function.observations) {
    const uint64_t rows = it.ratio == 0 ? function.outputs : function.capacity;
    BoundFunction::Observed &observed = bound.observations.emplace_back();
    DS4_ASSIGN(observed.source, resolve(function, it.source,
                                        rows * it.rowElements * sizeof(float)));
    DS4_ASSIGN(observed.chosen,
               resolve(function, it.chosen, rows * it.used * sizeof(int32_t)));
  }
  return bound;
}

Result<void *> Session::resolve(const Function &function, const Arg &arg,
                                uint64_t bytes) {
  auto within = [&](void *base, uint64_t size) -> Result<void *> {
    if (arg.offset <= size && bytes <= size - arg.offset)
      return static_cast<void *>(static_cast<std::byte *>(base) + arg.offset);
    return invalidInput(fmt::format(
        "plan.json: an argument of {} lies at byte {} of a buffer of {} bytes; "
        "recompile the bundle with ds4c",
        function.name, arg.offset, size));
  };
  auto named = [&](const auto &buffers,
                   std::string_view kind) -> Result<void *> {
    auto it = buffers.find(arg.name);
    if (it != buffers.end())
      return it->second;
    return invalidInput(fmt::format(
        "plan.json: {} uses the {} `{}`, which the plan does not list; "
        "recompile the bundle with ds4c",
        function.name, kind, arg.name));
  };
  switch (arg.kind) {
  case ArgKind::arena:
    return within(arena, function.arenaBytes);
  case ArgKind::status:
    return within(status, function.launches.size() * sizeof(StepStatus));
  case ArgKind::tickets:
    return within(tickets, function.tickets * sizeof(uint32_t));
  case ArgKind::weight:
    return named(weights, "weight");
  case ArgKind::books:
    return named(books, "decode table");
  case ArgKind::rotations:
    return named(rotations, "rotation flags");
  case ArgKind::state:
    return named(states, "state");
  case ArgKind::table:
    return named(tables, "rotary table");
  case ArgKind::tokens:
    return tokens;
  case ArgKind::step:
    return step;
  case ArgKind::null:
    return nullptr;
  }
  return nullptr;
}

} // namespace ds4
