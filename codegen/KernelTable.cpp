// KernelTable.cpp - look-up of entries, and the text of a unit.
#include "codegen/KernelTable.h"

#include "codegen/DeviceTexts.h"
#include "codegen/KernelEntries.h"

#include "llvm/ADT/TypeSwitch.h"

#include <fmt/format.h>

using namespace mlir;

namespace ds4::codegen {

using namespace ir;

static const KernelTable &table() {
  static const KernelTable kernels = [] {
    KernelTable all;
    addLinearKernels(all);
    addStreamKernels(all);
    addAttentionKernels(all);
    addRoutingKernels(all);
    return all;
  }();
  return kernels;
}

KernelSpec &KernelSpec::constant(llvm::StringRef name, int64_t value) {
  assert(value >= 0 && value <= 0xffffffff && "a constant beyond u32");
  constants.push_back({"u32", name.str(), std::to_string(value)});
  return *this;
}

KernelSpec &KernelSpec::constantF(llvm::StringRef name, float value) {
  constants.push_back({"float", name.str(), fmt::format("{:a}f", value)});
  return *this;
}

RowRatio rowRatio(Operation *op) {
  if (auto rows = op->getAttrOfType<RowsAttr>("rows"))
    return rows.getRatio();
  return llvm::TypeSwitch<Operation *, RowRatio>(op)
      .Case<ArgmaxOp, HeadCollapseOp, TakeOutputsOp>([](auto) { return 0; })
      .Case([](CompressOp compress) { return compress.getRatio(); })
      .Default(RowRatio(1)); // tokens
}

/// Rows that a step has at most: the leading dimension of what the op writes.
static int64_t rowCapacity(Operation *op) {
  Value rows = op->getNumResults() ? op->getResult(0) : op->getOperand(0);
  return activationShape(rows.getType()).front();
}

FailureOr<KernelSpec> kernelFor(Operation *op) {
  auto entry = table().entries.find(op->getName().getStringRef());
  if (entry == table().entries.end())
    return op->emitOpError() << "has no kernel: add an entry to codegen/"
                                "*Kernels.cpp";
  KernelSpec spec;
  spec.kernel = op->getName().stripDialect().str();
  spec.gridY = static_cast<uint32_t>(rowCapacity(op));
  spec.ratio = rowRatio(op);
  if (failed(entry->second(op, spec)))
    return failure();
  return spec;
}

std::vector<std::string> opsWithKernels() {
  std::vector<std::string> names;
  for (const auto &entry : table().entries)
    names.push_back(entry.first);
  return names;
}

/// The unit for a kernel called `symbol`.
static std::string unitText(const KernelSpec &spec, std::string_view symbol) {
  std::string text = fmt::format("// unit {}: {}", symbol, spec.kernel);
  if (spec.format)
    text += fmt::format(", {}", weightFormatInfo(*spec.format).name);
  text += fmt::format("\n#define DS4_SYMBOL {}\n#include \"prelude.h\"\n"
                      "constexpr u32 kThreads = {};\n"
                      "constexpr u32 kRatio = {};\n",
                      symbol, spec.block, spec.ratio);
  for (const KernelSpec::Constant &constant : spec.constants)
    text += fmt::format("constexpr {} {} = {};\n", constant.type, constant.name,
                        constant.value);
  if (spec.format)
    text += fmt::format("#include \"weights/{}.h\"\n",
                        weightFormatInfo(*spec.format).name);
  text +=
      fmt::format("#include \"{}.hip\"\nDS4_ENTRY(DS4_SYMBOL)\n", spec.kernel);
  return text;
}

Unit emitUnit(const KernelSpec &spec) {
  std::string content = unitText(spec, spec.kernel);
  for (const EmbeddedText *file : includedTexts(content))
    content.append(file->path).append("\n").append(file->text);
  std::string symbol =
      fmt::format("{}_{}", spec.kernel, contentHash(content).substr(0, 8));
  return {symbol, unitText(spec, symbol)};
}

} // namespace ds4::codegen
