// KernelHarness.cpp - see KernelHarness.h.
#include "ops/test/KernelHarness.h"

#include "codegen/LaunchSpec.h"
#include "codegen/UnitCompiler.h"
#include "runtime/Device.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <map>
#include <unistd.h>

using namespace ds4::codegen;
namespace ir = ds4::ir;

namespace ds4::test {
namespace {

struct Declared {
  std::string mnemonic, module, target;
};

std::deque<Declared> &declared() {
  static std::deque<Declared> all;
  return all;
}

/// A broken harness or module: nothing that a test could go on with.
[[noreturn]] void die(const std::string &text) {
  std::fprintf(stderr, "kernel harness: %s\n", text.c_str());
  std::abort();
}

template <typename T> T take(Result<T> result) {
  if (!result)
    die(result.error().text);
  return std::move(*result);
}
void check(Status status) {
  if (!status)
    die(status.error().text);
}

uint64_t bytesOfType(mlir::Type type) {
  if (auto weight = mlir::dyn_cast<ir::WeightType>(type))
    return weight.getDeviceBytes();
  if (auto state = mlir::dyn_cast<ir::StateType>(type))
    return state.getBytes();
  if (auto q8 = mlir::dyn_cast<ir::Q8Type>(type)) {
    uint64_t rows = 1;
    for (int64_t size : q8.getShape().drop_back())
      rows *= size;
    return rows * q8.getRowBytes();
  }
  auto tensor = mlir::cast<mlir::RankedTensorType>(type);
  return tensor.getNumElements() * tensor.getElementTypeBitWidth() / 8;
}

std::optional<LaneRow> laneRowOf(mlir::Type type) {
  auto weight = mlir::dyn_cast<ir::WeightType>(type);
  if (!weight || weight.getLayout() != WeightLayout::lanes)
    return std::nullopt;
  return LaneRow::of(weight.getFormat(), weight.getRowElements());
}

/// A tensor in file order, as the loader brings it to a device.
std::vector<uint8_t> packed(const LaneRow &row, std::span<const uint8_t> file) {
  const uint64_t rows = file.size() / row.fileBytes;
  std::vector<uint8_t> result(rows * row.bytes);
  row.pack(std::as_bytes(file).data(), rows,
           reinterpret_cast<std::byte *>(result.data()));
  return result;
}

/// A compiled Kernel: its symbol, launch and argument sizes.
struct Compiled {
  std::string symbol;
  uint32_t gridX, gridY, block;
  bool reportsNan;
  std::vector<uint64_t> argBytes; ///< 0: an operand that is not there
  std::vector<size_t> order;      ///< of the kernel's pointers in argBytes
  /// Arguments that are weights in layout `lanes`.
  std::map<size_t, LaneRow> laneRows;
  uint64_t tickets, scratchBytes;
  /// What runs before and leaves something in scratch memory.
  std::shared_ptr<const Compiled> before{};

  bool uses(size_t argument) const {
    return llvm::is_contained(order, argument) ||
           (before && before->uses(argument));
  }
};

LaunchSpec specOf(mlir::Operation *op, const Declared &kernel) {
  auto spec = launchFor(op);
  if (mlir::failed(spec))
    die("no kernel for " + kernel.module);
  return *spec;
}

/// Adds the launch's unit; `memory`: what a test gives; `gpu`: products are
/// done as on sm_90.
Compiled compiled(const LaunchSpec &spec, llvm::ArrayRef<mlir::Value> memory,
                  bool gpu, std::map<std::string, Unit> &units) {
  Unit unit = emitUnit(spec);
  // What the host does for gfx1151 otherwise.
  if (gpu && unit.text.find("\"layouts/") != std::string::npos) {
    const std::string name = unit.symbol + "_gpu";
    for (size_t at = 0;
         (at = unit.text.find(unit.symbol, at)) != std::string::npos;
         at += name.size())
      unit.text.replace(at, unit.symbol.size(), name);
    unit = {name, "#define DS4_EMULATE_MMA 1\n#define DS4_EMULATE_GPU 1\n" +
                      unit.text};
  }
  units.insert({unit.symbol, unit});
  Compiled entry{unit.symbol,
                 spec.gridX,
                 spec.gridY,
                 spec.threads,
                 spec.selection != nullptr,
                 {},
                 {},
                 {},
                 spec.tickets * spec.gridY,
                 spec.scratchBytes};
  if (spec.before)
    entry.before = std::make_shared<const Compiled>(
        compiled(*spec.before, memory, gpu, units));
  for (mlir::Value value : memory) {
    if (value)
      if (auto row = laneRowOf(value.getType()))
        entry.laneRows.emplace(entry.argBytes.size(), *row);
    entry.argBytes.push_back(value ? bytesOfType(value.getType()) : 0);
  }
  for (mlir::Value value : spec.args)
    entry.order.push_back(llvm::find(memory, value) - memory.begin());
  return entry;
}

/// Every declared kernel, compiled, and the two devices that have them.
class Lab {
public:
  Lab() {
    mlir::MLIRContext context;
    context.loadDialect<mlir::func::FuncDialect, ir::Ds4Dialect>();
    std::map<std::string, Unit> units;
    for (const Declared &kernel : declared()) {
      auto module = mlir::parseSourceString<mlir::ModuleOp>(
          kernel.module, mlir::ParserConfig(&context));
      if (!module)
        die("cannot read " + kernel.module);
      auto function = *module->getOps<mlir::func::FuncOp>().begin();
      mlir::Operation *op = &function.getBody().front().front();
      const LaunchSpec onHost = specOf(op, kernel);
      // Tests give memory in the order of the host's arguments.
      const auto bodies = onHost.bodies();
      const llvm::ArrayRef<mlir::Value> memory =
          bodies.size() == 1 ? llvm::ArrayRef(bodies.front()->args)
                             : llvm::ArrayRef(onHost.args);
      kernels.push_back(compiled(onHost, memory, false, units));
      mlir::Builder builder(&context);
      module->getOperation()->setAttr(
          "ds4.profile", builder.getDictionaryAttr(builder.getNamedAttr(
                             "target", builder.getStringAttr("sm_90"))));
      forGpu.push_back(compiled(specOf(op, kernel), memory, true, units));
    }
    std::vector<Unit> list;
    for (auto &[symbol, unit] : units)
      list.push_back(unit);
    const std::string object = take(compileUnits(list, *findTarget("host")));
    const std::string path =
        fmt::format("{}/kernels_{}.so", testing::TempDir(), getpid());
    std::ofstream(path, std::ios::binary) << object;
    for (unsigned threads : {1, 2}) {
      devices.push_back(take(createHostDevice(threads)));
      check(devices.back()->loadObject(path));
    }
    std::remove(path.c_str());
  }

  std::vector<Compiled> kernels, forGpu;
  std::vector<std::unique_ptr<Device>> devices;
};

Lab &lab() {
  static Lab only;
  return only;
}

using Bytes = std::vector<uint8_t>;

/// Device memory that holds `bytes`; freed with the object.
class Buffer {
public:
  Buffer(Device &device, const Bytes &bytes)
      : device(device), memory(take(device.allocate(bytes.size(), "test"))) {
    check(device.copyIn(memory, bytes.data(), bytes.size()));
  }
  Buffer(const Buffer &) = delete;
  ~Buffer() { device.free(memory); }

  void read(Bytes &bytes) {
    check(device.copyOut(bytes.data(), memory, bytes.size()));
  }
  void *get() { return memory; }

private:
  Device &device;
  void *memory;
};

/// Launches on one device; `contents` of the arguments change in place, and
/// what is in scratch memory.
StepStatus launchOne(Device &device, const Compiled &kernel, const Step &step,
                     std::vector<Bytes> &contents, Bytes &scratch) {
  std::deque<Buffer> buffers;
  std::vector<void *> args;
  auto add = [&](const Bytes &bytes) {
    args.push_back(buffers.emplace_back(device, bytes).get());
  };
  for (size_t i : kernel.order)
    add(contents[i]);
  Bytes statusBytes(sizeof(StepStatus), 0), stepBytes(sizeof(Step));
  std::memcpy(stepBytes.data(), &step, sizeof(Step));
  Bytes tickets(kernel.tickets * sizeof(uint32_t), 0);
  if (kernel.tickets)
    add(tickets);
  if (kernel.scratchBytes)
    add(scratch);
  if (kernel.reportsNan)
    add(statusBytes);
  add(stepBytes);
  check(device.launch(take(device.kernel(kernel.symbol, 0)), kernel.gridX,
                      kernel.gridY, kernel.block, args));
  check(device.synchronize());
  auto buffer = buffers.begin();
  for (size_t i : kernel.order)
    (buffer++)->read(contents[i]);
  if (kernel.tickets) {
    (buffer++)->read(tickets);
    EXPECT_EQ(tickets, Bytes(tickets.size(), 0))
        << kernel.symbol << " leaves tickets behind";
  }
  if (kernel.scratchBytes)
    (buffer++)->read(scratch);
  if (kernel.reportsNan)
    buffer->read(statusBytes);
  StepStatus status;
  std::memcpy(&status, statusBytes.data(), sizeof status);
  return status;
}

/// The same with what runs before.
StepStatus launch(Device &device, const Compiled &kernel, const Step &step,
                  std::vector<Bytes> &contents) {
  // Not zero: its contents are undefined.
  Bytes scratch(kernel.scratchBytes, 0xa5);
  if (kernel.before)
    launchOne(device, *kernel.before, step, contents, scratch);
  return launchOne(device, kernel, step, contents, scratch);
}

std::string shapeText(std::initializer_list<int64_t> shape) {
  return fmt::format("{}", fmt::join(shape, "x"));
}

} // namespace

std::string tensor(std::initializer_list<int64_t> shape,
                   std::string_view element) {
  return fmt::format("tensor<{}x{}>", shapeText(shape), element);
}
std::string weight(std::initializer_list<int64_t> shape,
                   std::string_view format, WeightLayout layout) {
  return fmt::format("!ds4.weight<{}x{}, {}>", shapeText(shape), format,
                     weightLayoutName(layout));
}
std::string books(WeightFormat format, bool int8, int64_t experts) {
  const int64_t levels = weightFormatInfo(format).bookLevels;
  return int8 ? tensor({experts, 2, levels + 4}, "i8")
              : tensor({experts, 2, levels});
}
std::string state(int64_t rows, int64_t width, std::string_view storage) {
  return fmt::format("!ds4.state<{}x{}x{}>", rows, width, storage);
}

Kernel::Kernel(std::string op, std::vector<std::string> operands,
               std::vector<std::string> results, std::string_view target)
    : index(declared().size()) {
  std::vector<std::string> arguments;
  for (size_t i = 0; i < operands.size(); ++i)
    arguments.push_back(fmt::format("%{}: {}", i, operands[i]));
  std::string types;
  if (op.find(" : ") == std::string::npos)
    types = fmt::format(" : ({}) -> ({})", fmt::join(operands, ", "),
                        fmt::join(results, ", "));
  const std::string assigned =
      results.empty() ? "" : fmt::format("%r:{} = ", results.size());
  declared().push_back(
      {op.substr(0, op.find(' ')),
       fmt::format("module attributes {{ds4.profile = {{target = \"{}\"}}}} "
                   "{{\nfunc.func @test({}) {{\n  {}{}{}\n  return\n}}\n}}\n",
                   target, fmt::join(arguments, ", "), assigned, op, types),
       std::string(target)});
}

std::set<std::string> Kernel::declaredOps() {
  std::set<std::string> ops;
  for (const Declared &kernel : declared())
    ops.insert(kernel.mnemonic);
  return ops;
}

StepStatus Kernel::run(const Step &step, std::vector<Memory> memory) const {
  const Compiled &kernel = lab().kernels[index];
  if (memory.size() != kernel.argBytes.size())
    die(fmt::format("{} has {} arguments, the test gives {}", kernel.symbol,
                    kernel.argBytes.size(), memory.size()));
  std::vector<Bytes> before;
  for (size_t i = 0; i < memory.size(); ++i) {
    Bytes bytes(kernel.argBytes[i], 0xff);
    if (std::max(memory[i].input.size(), memory[i].output.size()) >
        bytes.size())
      die(fmt::format("argument {} of {} has {} bytes, the test gives more", i,
                      kernel.symbol, bytes.size()));
    if (auto row = kernel.laneRows.find(i); row != kernel.laneRows.end()) {
      const Bytes rows = packed(row->second, memory[i].input);
      std::copy(rows.begin(), rows.end(), bytes.begin());
    } else {
      std::copy(memory[i].input.begin(), memory[i].input.end(), bytes.begin());
    }
    before.push_back(std::move(bytes));
  }
  std::vector<Bytes> one = before, two = before;
  const StepStatus first = launch(*lab().devices[0], kernel, step, one);
  const StepStatus second = launch(*lab().devices[1], kernel, step, two);
  EXPECT_EQ(first.launch, second.launch) << kernel.symbol;
  const Compiled &forGpu = lab().forGpu[index];
  std::vector<Bytes> three = forGpu.symbol == kernel.symbol ? one : before;
  if (forGpu.symbol != kernel.symbol) {
    const StepStatus third = launch(*lab().devices[1], forGpu, step, three);
    EXPECT_EQ(first.launch, third.launch) << forGpu.symbol;
  }
  for (size_t i = 0; i < memory.size(); ++i) {
    EXPECT_EQ(one[i], two[i]) << "argument " << i << " of " << kernel.symbol
                              << " depends on the number of threads";
    // A launch may keep in registers what another cut of it writes.
    if (forGpu.uses(i)) {
      EXPECT_EQ(one[i], three[i]) << "argument " << i << " of " << forGpu.symbol
                                  << " differs from that of " << kernel.symbol;
    }
    const size_t size = memory[i].output.size();
    EXPECT_TRUE(std::equal(one[i].begin() + size, one[i].end(),
                           before[i].begin() + size))
        << kernel.symbol << " wrote past the rows of argument " << i;
    std::copy_n(one[i].begin(), size, memory[i].output.begin());
  }
  return first;
}

} // namespace ds4::test
