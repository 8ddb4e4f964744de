// TestBundles.cpp - a changed device file stands in the unit's own text, in
// place of the include; the rest is what ds4c does with a planned graph.
#include "test/numerics/TestBundles.h"

#include "codegen/BundleWriter.h"
#include "codegen/DeviceTexts.h"
#include "codegen/PlanWriter.h"
#include "codegen/UnitCompiler.h"
#include "ir/Ds4Ops.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fmt/format.h>
#include <unistd.h>

namespace ds4::test {

using namespace codegen;

static constexpr char kModel[] =
    DS4_SOURCE_DIR "/models/ds4-tiny/ds4-tiny-strix.gguf";

namespace {
/// A folder that goes with the test binary. The cache of kernels is in it too:
/// most of the bundles here share most of theirs.
struct ScratchFolder {
  std::filesystem::path path = std::filesystem::path(testing::TempDir()) /
                               fmt::format("ds4-numerics-{}", getpid());
  ScratchFolder() {
    std::filesystem::create_directories(path);
    setenv("XDG_CACHE_HOME", path.c_str(), /*overwrite=*/1);
  }
  ~ScratchFolder() {
    std::error_code code;
    std::filesystem::remove_all(path, code);
  }
};
} // namespace

CompileRequest demoRequest(std::string_view name, std::string_view kv) {
  static const ScratchFolder scratch;
  CompileRequest request;
  request.input = kModel;
  request.output = scratch.path / fmt::format("{}.ds4b", name);
  request.profile.context = 512;
  request.profile.prefillChunk = 64;
  request.profile.verifyWidth = 8;
  request.profile.kv = kv;
  request.profile.simulate = kv == "fp8";
  request.profile.logits = "all";
  return request;
}

static bool includes(const EmbeddedText &file, std::string_view path) {
  const std::vector<const EmbeddedText *> texts = includedTexts(file.text);
  return std::ranges::find(texts, path, &EmbeddedText::path) != texts.end();
}

/// `text` with the file that the edit names in place of its first include,
/// directly or inside of another file.
static std::string withEdit(std::string_view text, const DeviceEdit &edit) {
  static constexpr std::string_view kInclude = "#include \"";
  for (size_t at = text.find(kInclude); at != std::string_view::npos;
       at = text.find(kInclude, at + 1)) {
    const size_t begin = at + kInclude.size(), end = text.find('"', begin);
    const std::string_view name = text.substr(begin, end - begin);
    const EmbeddedText *file = findDeviceText(name);
    if (!file)
      continue;
    std::string inlined(file->text);
    if (name == edit.file) {
      const size_t place = inlined.find(edit.from);
      if (place == std::string::npos)
        ADD_FAILURE() << edit.file << " has no `" << edit.from << "`";
      else
        inlined.replace(place, edit.from.size(), edit.to);
    } else if (includes(*file, edit.file)) {
      inlined = withEdit(file->text, edit);
    } else {
      continue;
    }
    return fmt::format("{}{}{}", text.substr(0, at), inlined,
                       text.substr(end + 1));
  }
  return std::string(text);
}

void compileEdited(const CompileRequest &request, const DeviceEdit &edit) {
  CompileRequest planned = request;
  planned.emit = Stage::planned;
  planned.output += ".mlir";
  Status compiled = compile(planned);
  ASSERT_TRUE(compiled) << compiled.error().text;

  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<ir::Ds4Dialect, mlir::func::FuncDialect>();
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(
      planned.output.string(), mlir::ParserConfig(&context));
  ASSERT_TRUE(module);
  mlir::FailureOr<EmittedPlan> plan = emitPlan(*module);
  mlir::FailureOr<Manifest> manifest = emitManifest(*module);
  ASSERT_TRUE(mlir::succeeded(plan) && mlir::succeeded(manifest));
  size_t edited = 0;
  for (Unit &unit : plan->units) {
    const std::string text = withEdit(unit.text, edit);
    edited += text != unit.text;
    unit.text = text;
  }
  ASSERT_GT(edited, 0u) << "no unit includes " << edit.file;
  const Target &target = *findTarget("host");
  Result<std::string> object = compileUnits(plan->units, target, {});
  ASSERT_TRUE(object) << object.error().text;
  Status written = writeBundle(
      request.output, bundleFiles(*manifest, *plan, target, {*object}, ""));
  ASSERT_TRUE(written) << written.error().text;
}

std::unique_ptr<Session> openDemo(const CompileRequest &request,
                                  unsigned threads) {
  if (!std::filesystem::exists(request.output)) {
    Status compiled = compile(request);
    EXPECT_TRUE(compiled) << compiled.error().text;
  }
  Result<Bundle> bundle = openBundle(request.output);
  EXPECT_TRUE(bundle) << bundle.error().text;
  Result<Gguf> gguf = Gguf::open(kModel);
  EXPECT_TRUE(gguf) << gguf.error().text;
  SessionOptions options;
  options.threads = threads;
  Result<std::unique_ptr<Session>> session =
      Session::open(std::move(*bundle), *gguf, options);
  EXPECT_TRUE(session) << session.error().text;
  return std::move(*session);
}

} // namespace ds4::test
