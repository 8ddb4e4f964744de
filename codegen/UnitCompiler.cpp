// UnitCompiler.cpp - clang's front end and back end, then lld, in process.
//
// Units share names on purpose (each has its own `kHidden` and its own helpers
// that use it), so everything but the entry is made internal before the
// optimiser runs: otherwise the linker would merge inline functions of one name
// and two meanings.
#include "codegen/UnitCompiler.h"

#include "codegen/DeviceTexts.h"
#include "runtime/BundleFormat.h"
#include "runtime/ParallelWork.h"

#include "lld/Common/Driver.h"
#include "clang/Basic/Version.h"
#include "clang/CodeGen/CodeGenAction.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/TextDiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/VirtualFileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/IPO/Internalize.h"

#include <fmt/format.h>

#include <fstream>
#include <mutex>

LLD_HAS_DRIVER(elf)

namespace ds4::codegen {

namespace {

/// Where device files appear to the front end.
constexpr std::string_view kDeviceRoot = "/ds4/ops/";

/// Functions that the back end or the loader may need: memory idioms and
/// thread-local storage. Anything else would be a kernel that depends on the
/// machine's libraries.
constexpr llvm::StringLiteral kAllowedUndefined[] = {"__tls_get_addr", "memcpy",
                                                     "memmove", "memset"};

using Object = llvm::SmallVector<char, 0>;

} // namespace

static std::vector<std::string> clangArgs(const Target &target) {
  std::vector<std::string> args = {"-triple",
                                   std::string(target.triple),
                                   "-target-cpu",
                                   std::string(target.cpu),
                                   "-emit-obj",
                                   "-O3",
                                   "-std=c++20",
                                   "-ffp-contract=off",
                                   "-vectorize-loops",
                                   "-vectorize-slp",
                                   "-mrelocation-model",
                                   "pic",
                                   "-pic-level",
                                   "2",
                                   "-nostdsysteminc",
                                   "-nobuiltininc",
                                   "-nostdinc++",
                                   "-fno-rtti",
                                   "-Wall",
                                   "-Wno-unused-function",
                                   "-Wno-unused-const-variable",
                                   "-Werror",
                                   "-I",
                                   std::string(kDeviceRoot),
                                   "-x",
                                   std::string(target.language)};
  if (!target.isHost())
    args.insert(args.end(), {"-fcuda-is-device", "-fvisibility=hidden",
                             "-fapply-global-visibility-to-externs",
                             "-mcode-object-version=5"});
  return args;
}

std::string compilerId(const Target &target) {
  std::string id = clang::getClangFullVersion();
  for (const std::string &arg : clangArgs(target))
    id += " " + arg;
  return id;
}

static void initializeLlvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
}

/// Device files and the unit, and nothing of the machine's.
static llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem>
fileSystemFor(const Unit &unit, const std::string &path) {
  auto files = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
  for (const EmbeddedText &file : deviceTexts())
    files->addFile(std::string(kDeviceRoot) + std::string(file.path), 0,
                   llvm::MemoryBuffer::getMemBuffer(file.text, file.path));
  files->addFile(path, 0, llvm::MemoryBuffer::getMemBuffer(unit.text, path));
  return files;
}

/// What the unit's object exports.
static std::string entryOf(const Unit &unit, const Target &target) {
  return target.isHost() ? unit.symbol + "_entry" : unit.symbol;
}

static Result<Object> compileUnit(const Unit &unit, const Target &target) {
  const std::string path = std::string(kDeviceRoot) + unit.symbol + ".hip";
  std::vector<std::string> args = clangArgs(target);
  args.push_back(path);
  std::vector<const char *> rawArgs;
  for (const std::string &arg : args)
    rawArgs.push_back(arg.c_str());

  std::string log;
  llvm::raw_string_ostream logStream(log);
  clang::CompilerInstance compiler;
  compiler.setVerboseOutputStream(logStream);
  compiler.createFileManager(fileSystemFor(unit, path));
  llvm::IntrusiveRefCntPtr<clang::DiagnosticOptions> diagnosticOptions =
      new clang::DiagnosticOptions;
  compiler.createDiagnostics(
      new clang::TextDiagnosticPrinter(logStream, diagnosticOptions.get()),
      /*ShouldOwnClient=*/true);
  if (!clang::CompilerInvocation::CreateFromArgs(
          compiler.getInvocation(), rawArgs, compiler.getDiagnostics()))
    return Error{ErrorCode::deviceError,
                 fmt::format("clang refuses its options: {}", log)};
  compiler.getCodeGenOpts().PassBuilderCallbacks.push_back(
      [&](llvm::PassBuilder &builder) {
        builder.registerPipelineStartEPCallback(
            [&](llvm::ModulePassManager &passes, llvm::OptimizationLevel) {
              passes.addPass(
                  llvm::InternalizePass([&](const llvm::GlobalValue &value) {
                    return value.getName() == entryOf(unit, target);
                  }));
            });
      });

  Object object;
  compiler.setOutputStream(std::make_unique<llvm::raw_svector_ostream>(object));
  llvm::LLVMContext context;
  clang::EmitObjAction action(&context);
  if (!compiler.ExecuteAction(action))
    return Error{ErrorCode::deviceError,
                 fmt::format("unit {} does not compile for {}:\n{}",
                             unit.symbol, target.name, log)};
  return object;
}

/// Every byte that decides the unit's object: its own, those of the device
/// files that it includes, the compiler's.
static std::string unitKey(const Unit &unit, const Target &target) {
  std::string all = fmt::format("{}\n{}\n{}\n{}", target.name,
                                compilerId(target), unit.symbol, unit.text);
  for (const EmbeddedText *file : includedTexts(unit.text))
    all +=
        fmt::format("\n{} {}\n{}", file->path, file->text.size(), file->text);
  return contentHash(all);
}

/// A kernel may call nothing outside its unit.
static Status checkSymbols(const Unit &unit, const Target &target,
                           const Object &object) {
  llvm::Expected<std::unique_ptr<llvm::object::ObjectFile>> file =
      llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(
          llvm::StringRef(object.data(), object.size()), unit.symbol));
  if (!file)
    return Error{ErrorCode::deviceError, llvm::toString(file.takeError())};
  const std::string entry = entryOf(unit, target);
  bool hasEntry = false;
  for (const llvm::object::SymbolRef &symbol : (*file)->symbols()) {
    llvm::Expected<llvm::StringRef> name = symbol.getName();
    llvm::Expected<uint32_t> flags = symbol.getFlags();
    if (!name || !flags) {
      llvm::consumeError(name.takeError());
      llvm::consumeError(flags.takeError());
      continue;
    }
    bool isUndefined = *flags & llvm::object::SymbolRef::SF_Undefined;
    hasEntry |= *name == entry && !isUndefined;
    if (isUndefined && !name->empty() && *name != "_GLOBAL_OFFSET_TABLE_" &&
        !llvm::is_contained(kAllowedUndefined, *name))
      return Error{ErrorCode::deviceError,
                   fmt::format("unit {} calls {}, which is not part of it",
                               unit.symbol, name->str())};
  }
  if (!hasEntry)
    return Error{ErrorCode::deviceError,
                 fmt::format("unit {} does not define {}: its text lacks "
                             "DS4_ENTRY(DS4_SYMBOL)",
                             unit.symbol, entry)};
  return Status::ok();
}

/// The one file of a unit's cache entry.
static constexpr const char *kObjectName = "object";

/// The unit's object, from the cache or compiled and then kept there.
static Result<Object> buildUnit(const Unit &unit, const Target &target,
                                const Cache &cache) {
  const std::string key = unitKey(unit, target);
  if (std::optional<FileSet> cached = cache.load(key))
    if (auto it = cached->find(kObjectName); it != cached->end())
      return Object(it->second.begin(), it->second.end());
  DS4_ASSIGN(Object object, compileUnit(unit, target));
  DS4_TRY(checkSymbols(unit, target, object));
  cache.store(key, {{kObjectName, std::string(object.begin(), object.end())}});
  return object;
}

namespace {

/// A temporary directory that is removed with all that is in it.
class ScratchDirectory {
public:
  ScratchDirectory() {
    failure = llvm::sys::fs::createUniqueDirectory("ds4c", directory);
  }
  ~ScratchDirectory() {
    if (!failure)
      llvm::sys::fs::remove_directories(directory);
  }
  ScratchDirectory(const ScratchDirectory &) = delete;
  ScratchDirectory &operator=(const ScratchDirectory &) = delete;

  std::error_code error() const { return failure; }
  std::string path(std::string_view name) const {
    return fmt::format("{}/{}", std::string(directory), name);
  }

private:
  llvm::SmallString<64> directory;
  std::error_code failure;
};

} // namespace

/// lld reads and writes files only, and keeps global state: one link at a time.
static Result<std::string> linkObjects(std::span<const Unit> units,
                                       std::span<const Object> objects,
                                       const Target &target) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);

  ScratchDirectory scratch;
  if (scratch.error())
    return ioError(fmt::format("cannot make a temporary directory: {}",
                               scratch.error().message()));
  const std::string output = scratch.path("kernels.so");
  std::vector<std::string> args = {"ld.lld",
                                   "-m",
                                   std::string(target.linkMode),
                                   "-shared",
                                   "--threads=1",
                                   "--build-id=none",
                                   "--gc-sections",
                                   "-soname",
                                   "ds4-kernels",
                                   "-o",
                                   output};
  for (size_t i = 0; i < units.size(); ++i) {
    std::string path = scratch.path(units[i].symbol + ".o");
    std::ofstream file(path, std::ios::binary);
    file.write(objects[i].data(), objects[i].size());
    if (!file.flush())
      return ioError(fmt::format("cannot write {}: is the disk full?", path));
    args.push_back(std::move(path));
  }
  std::vector<const char *> rawArgs;
  for (const std::string &arg : args)
    rawArgs.push_back(arg.c_str());

  static bool canRunAgain = true;
  if (!canRunAgain)
    return Error{ErrorCode::deviceError,
                 "lld cannot run again after an earlier failure; start anew"};
  std::string log;
  llvm::raw_string_ostream logStream(log);
  const lld::DriverDef driver = {lld::Gnu, &lld::elf::link};
  lld::Result result = lld::lldMain(rawArgs, logStream, logStream, {driver});
  canRunAgain = result.canRunAgain;
  if (result.retCode != 0)
    return Error{
        ErrorCode::deviceError,
        fmt::format("lld cannot link the units for {}:\n{}", target.name, log)};
  auto bytes = llvm::MemoryBuffer::getFile(output, /*IsText=*/false,
                                           /*RequiresNullTerminator=*/false);
  if (!bytes)
    return ioError(
        fmt::format("cannot read {}: {}", output, bytes.getError().message()));
  return (*bytes)->getBuffer().str();
}

/// Objects of all units, by options.threads.
static Result<std::vector<Object>> buildUnits(std::span<const Unit> units,
                                              const Target &target,
                                              const CompileOptions &options) {
  initializeLlvm();
  std::vector<Object> objects(units.size());
  auto build = [&](size_t i) {
    Result<Object> object = buildUnit(units[i], target, options.cache);
    if (!object)
      return Status(object.error());
    objects[i] = std::move(*object);
    return Status::ok();
  };
  DS4_TRY(
      workInParallel(options.threads, units.size(), build, options.progress));
  return objects;
}

Result<std::string> compileUnits(std::span<const Unit> units,
                                 const Target &host,
                                 const CompileOptions &options) {
  DS4_ASSIGN(const std::vector<Object> objects,
             buildUnits(units, host, options));
  return linkObjects(units, objects, host);
}

Result<std::vector<std::string>> compileKernels(std::span<const Unit> units,
                                                const Target &gpu,
                                                const CompileOptions &options) {
  DS4_ASSIGN(const std::vector<Object> objects,
             buildUnits(units, gpu, options));
  std::vector<std::string> kernels;
  for (size_t i = 0; i < units.size(); ++i) {
    DS4_ASSIGN(kernels.emplace_back(),
               linkObjects(units.subspan(i, 1), {&objects[i], 1}, gpu));
  }
  return kernels;
}

} // namespace ds4::codegen
