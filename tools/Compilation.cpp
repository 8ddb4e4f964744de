// Compilation.cpp - the stages in order, with the bundle cache in front: a
// bundle that was made before from the same inputs is written without loading
// a graph.
#include "tools/Compilation.h"

#include "codegen/BundleWriter.h"
#include "codegen/DeviceTexts.h"
#include "codegen/PlanWriter.h"
#include "codegen/UnitCompiler.h"
#include "ir/Ds4Ops.h"
#include "models/DeepSeekV4.h"
#include "models/Shape.h"
#include "passes/Pipeline.h"
#include "runtime/Gguf.h"
#include "runtime/PlanTable.h"
#include "runtime/WeightLoader.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <iostream>
#include <sstream>

namespace ds4 {

using namespace codegen;

static constexpr std::array<std::string_view, 7> kStageNames = {
    "model", "fused", "planned", "hip", "plan", "table", "bundle"};

std::optional<Stage> stageFromName(std::string_view name) {
  for (size_t i = 0; i < kStageNames.size(); ++i)
    if (kStageNames[i] == name)
      return static_cast<Stage>(i);
  return std::nullopt;
}

static Result<std::string> readText(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || (file.peek() != EOF && !(text << file.rdbuf())))
    return ioError(fmt::format("cannot read {}", path.string()));
  return std::move(text).str();
}

static Status writeText(const std::filesystem::path &path,
                        std::string_view text) {
  if (path.empty() || path == "-") {
    std::cout.write(text.data(), static_cast<std::streamsize>(text.size()));
    std::cout.flush();
    return Status::ok();
  }
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file)
    return ioError(fmt::format("cannot write {}", path.string()));
  return Status::ok();
}

namespace {

/// Keeps the first error that MLIR reports, with its place and notes.
class DiagnosticText {
public:
  explicit DiagnosticText(mlir::MLIRContext *context)
      : handler(context, [this](mlir::Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error &&
              text.empty())
            add(diagnostic);
          return mlir::success();
        }) {}

  /// The error for a step that failed.
  Error error(std::string_view what) const {
    return invalidInput(text.empty() ? fmt::format("{} failed", what) : text);
  }

private:
  void add(mlir::Diagnostic &diagnostic) {
    llvm::raw_string_ostream stream(text);
    if (auto place =
            mlir::dyn_cast<mlir::FileLineColLoc>(diagnostic.getLocation()))
      stream << place.getFilename().getValue() << ":" << place.getLine() << ":"
             << place.getColumn() << ": ";
    stream << diagnostic.str();
    for (mlir::Diagnostic &note : diagnostic.getNotes())
      if (auto place = mlir::dyn_cast<mlir::FileLineColLoc>(note.getLocation()))
        stream << " (" << note.str() << ": " << place.getFilename().getValue()
               << ":" << place.getLine() << ")";
  }

  std::string text;
  mlir::ScopedDiagnosticHandler handler;
};

/// A model on its way through the stages.
class Compilation {
public:
  explicit Compilation(const CompileRequest &request)
      : request(request),
        cache(request.useCache ? Cache::ofUser() : Cache(std::nullopt)) {
    context.printOpOnDiagnostic(false);
  }

  Status run();

private:
  Status readInput();
  std::string bundleKey() const;
  Status finish(const FileSet &files, std::string_view how);
  Status compileGraph();
  Status buildGraph();
  Status readDisabledPasses(std::string_view names);
  Status runPasses(void (*addPasses)(mlir::OpPassManager &,
                                     llvm::ArrayRef<std::string>),
                   Stage stage);
  Result<Manifest> makeManifest();
  Status emitBundle(const EmittedPlan &plan, const Manifest &manifest);
  Status dump(Stage stage, std::string_view text);
  std::string moduleText();
  /// Whether this stage is where the caller wants to stop.
  bool isLast(Stage stage) const { return request.emit == stage; }

  const CompileRequest &request;
  Cache cache;
  std::chrono::steady_clock::time_point start =
      std::chrono::steady_clock::now();
  std::optional<Gguf> gguf;
  std::string text; ///< of a dumped stage
  const Target *target = nullptr;
  std::vector<std::string> disabledPasses;
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace

Status Compilation::readInput() {
  if (!request.shape.empty()) {
    DS4_ASSIGN(gguf, openShape(request.shape));
    gguf->readFp2As(request.fp2);
    return Status::ok();
  }
  std::error_code code;
  if (!std::filesystem::is_regular_file(request.input, code))
    return ioError(
        fmt::format("cannot open {}: no such file", request.input.string()));
  if (!request.from) {
    DS4_ASSIGN(gguf, Gguf::open(request.input));
    gguf->readFp2As(request.fp2);
    if (const auto tensors = std::ranges::count_if(
            gguf->tensors(), [](const auto &it) { return bool(it.reading); }))
      fmt::print(stderr,
                 "ds4c: {} tensors of type 107 are read as {} (--fp2)\n",
                 tensors, fp2ReadingName(fp2Format(request.fp2)));
    return Status::ok();
  }
  DS4_ASSIGN(text, readText(request.input));
  return Status::ok();
}

/// Everything that decides the bytes of the bundle, this program included.
std::string Compilation::bundleKey() const {
  std::string all;
  if (gguf)
    all += fmt::format("{} {} {}", request.shape.empty() ? "gguf" : "shape",
                       gguf->fingerprint(), static_cast<int>(request.fp2));
  else
    all += fmt::format("{} {}", kStageNames[static_cast<int>(*request.from)],
                       contentHash(text));
  for (const auto &[key, value] : request.profile.text())
    all += fmt::format("\n{} = {}", key, value);
  all +=
      fmt::format("\n{} {}", request.target.value_or(""), request.precompile);
  static const Result<std::string> program = readText("/proc/self/exe");
  all += fmt::format("\n{}\n{}\n{}", toolVersion(),
                     program ? contentHash(*program) : "", deviceTextsHash());
  for (const Target &known : targets())
    all += known.canCompile() ? compilerId(known) : "";
  return contentHash(all);
}

Status Compilation::finish(const FileSet &files, std::string_view how) {
  DS4_TRY(writeBundle(request.output, files));
  if (request.showProgress) {
    std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - start;
    fmt::print(stderr, "\r{} {} ({:.1f} s)\033[K\n", how,
               request.output.string(), seconds.count());
  }
  return Status::ok();
}

Status Compilation::run() {
  DS4_TRY(readInput());
  const bool usesBundleCache =
      request.emit == Stage::bundle && request.dump.empty();
  const std::string key = usesBundleCache ? bundleKey() : "";
  if (usesBundleCache)
    if (std::optional<FileSet> files = cache.load(key))
      return finish(*files, "wrote (from the cache)");
  return compileGraph();
}

std::string Compilation::moduleText() {
  std::string result;
  llvm::raw_string_ostream stream(result);
  module->print(stream);
  stream << "\n";
  return result;
}

/// Writes a stage to the dump directory, as "03-planned.mlir".
Status Compilation::dump(Stage stage, std::string_view stageText) {
  if (request.dump.empty())
    return Status::ok();
  std::error_code code;
  std::filesystem::create_directories(request.dump, code);
  int number = static_cast<int>(stage);
  std::string_view extension = stage == Stage::hip     ? "hip"
                               : stage == Stage::plan  ? "json"
                               : stage == Stage::table ? "txt"
                                                       : "mlir";
  return writeText(request.dump / fmt::format("{:02}-{}.{}", number + 1,
                                              kStageNames[number], extension),
                   stageText);
}

Status Compilation::buildGraph() {
  context.loadDialect<ir::Ds4Dialect, mlir::func::FuncDialect>();
  std::string targetName, disabled = "none";
  if (gguf) {
    DS4_ASSIGN(module, buildDeepSeekV4(*gguf, request.profile, &context));
    if (!request.shape.empty())
      (*module)->setAttr("ds4.fingerprint",
                         mlir::StringAttr::get(&context, kShapeFingerprint));
    targetName = request.profile.target;
    disabled = request.profile.disablePass;
  } else {
    DiagnosticText diagnostics(&context);
    module = mlir::parseSourceString<mlir::ModuleOp>(
        text, mlir::ParserConfig(&context), request.input.string());
    if (!module)
      return diagnostics.error("parsing " + request.input.string());
    if (auto profile =
            (*module)->getAttrOfType<mlir::DictionaryAttr>("ds4.profile")) {
      if (auto name = profile.getAs<mlir::StringAttr>("target"))
        targetName = name.str();
      if (auto names = profile.getAs<mlir::StringAttr>("disable_pass"))
        disabled = names.str();
    }
  }
  DS4_TRY(readDisabledPasses(disabled));
  targetName = request.target.value_or(targetName);
  target = findTarget(targetName);
  if (request.emit >= Stage::hip && !target)
    return invalidInput(
        fmt::format("target '{}' is not one that this ds4c compiles for ({}): "
                    "use --target=NAME",
                    targetName, targetNames()));
  if (request.precompile && request.emit == Stage::bundle &&
      !target->canCompile())
    return invalidInput(fmt::format(
        "ds4c has no compiler for {}: leave out --precompile; ds4run compiles "
        "the bundle's kernels where that GPU's driver is, and keeps them",
        targetName));
  return Status::ok();
}

/// The profile's list: pass names between commas, or "none".
Status Compilation::readDisabledPasses(std::string_view names) {
  if (names == "none")
    return Status::ok();
  llvm::SmallVector<llvm::StringRef> list;
  llvm::StringRef(names.data(), names.size()).split(list, ',');
  for (llvm::StringRef name : list) {
    if (!llvm::is_contained(optionalPasses(), name))
      return invalidInput(fmt::format(
          "disable_pass: '{}' is not a pass that can be left out ({})",
          name.str(), llvm::join(optionalPasses(), ", ")));
    disabledPasses.push_back(name.str());
  }
  return Status::ok();
}

Status Compilation::runPasses(void (*addPasses)(mlir::OpPassManager &,
                                                llvm::ArrayRef<std::string>),
                              Stage stage) {
  DiagnosticText diagnostics(&context);
  mlir::PassManager passes(&context);
  addPasses(passes, disabledPasses);
  if (mlir::failed(passes.run(*module)))
    return diagnostics.error(
        fmt::format("making stage {}", kStageNames[static_cast<int>(stage)]));
  return Status::ok();
}

Result<Manifest> Compilation::makeManifest() {
  DiagnosticText diagnostics(&context);
  mlir::FailureOr<Manifest> manifest = emitManifest(*module);
  if (mlir::failed(manifest))
    return diagnostics.error("writing the manifest");
  return std::move(*manifest);
}

Status Compilation::emitBundle(const EmittedPlan &plan,
                               const Manifest &manifest) {
  CompileOptions options;
  options.cache = cache;
  if (request.showProgress)
    options.progress = [](size_t done, size_t total) {
      fmt::print(stderr, "\rcompiling kernels {}/{}\033[K", done, total);
    };
  std::vector<std::string> code;
  if (target->isHost()) {
    DS4_ASSIGN(code.emplace_back(), compileUnits(plan.units, *target, options));
  } else if (request.precompile) {
    DS4_ASSIGN(code, compileKernels(plan.units, *target, options));
  }
  FileSet files = bundleFiles(manifest, plan, *target, code, moduleText());
  if (request.dump.empty())
    cache.store(bundleKey(), files);
  return finish(files, "wrote");
}

Status Compilation::compileGraph() {
  DS4_TRY(buildGraph());
  Stage stage = request.from.value_or(Stage::model);
  if (stage == Stage::model) {
    if (isLast(Stage::model))
      return writeText(request.output, moduleText());
    DS4_TRY(dump(Stage::model, moduleText()));
    DS4_TRY(runPasses(addFusionPasses, Stage::fused));
  }
  if (stage <= Stage::fused) {
    if (isLast(Stage::fused))
      return writeText(request.output, moduleText());
    DS4_TRY(dump(Stage::fused, moduleText()));
    DS4_TRY(runPasses(addPlanningPasses, Stage::planned));
  }
  if (isLast(Stage::planned))
    return writeText(request.output, moduleText());
  DS4_TRY(dump(Stage::planned, moduleText()));

  mlir::FailureOr<EmittedPlan> plan;
  {
    DiagnosticText diagnostics(&context);
    plan = emitPlan(*module);
    if (mlir::failed(plan))
      return diagnostics.error("writing the plan");
  }
  std::string units;
  for (const Unit &unit : plan->units)
    units += unit.text + "\n";
  if (isLast(Stage::hip))
    return writeText(request.output, units);
  DS4_TRY(dump(Stage::hip, units));
  if (isLast(Stage::plan))
    return writeText(request.output, planToJson(plan->plan));
  DS4_TRY(dump(Stage::plan, planToJson(plan->plan)));
  DS4_ASSIGN(Manifest manifest, makeManifest());
  const std::string table =
      planTable(manifest, plan->plan, LoadOptions().stagingBytes());
  if (isLast(Stage::table))
    return writeText(request.output, table);
  DS4_TRY(dump(Stage::table, table));
  return emitBundle(*plan, manifest);
}

Status compile(const CompileRequest &request) {
  return Compilation(request).run();
}

} // namespace ds4
