// ds4-interp: runs an unfused graph with the oracle, token by token or in
// chunks, and prints what the engine must reproduce. For engine developers.
#include "ir/Ds4Ops.h"
#include "ops/Interpreter.h"
#include "runtime/StepPlan.h"
#include "tools/TokenIds.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <numeric>

using namespace ds4;

static constexpr const char *kHelp = R"(ds4-interp: run a graph with the oracle
usage: ds4-interp GRAPH.mlir -m MODEL.gguf --ids=N,...|FILE [options]
  GRAPH.mlir         as `ds4c MODEL.gguf --emit=model` prints it
  --ids=N,...        token ids; or a file of numbers, space or comma between
  --phase=NAME       decode or prefill only (default: both, as ds4run does)
  --chunk=N          most tokens a step (default: the phase's capacity)
  --logits=FILE      write the logits of every token, f32 [tokens, vocab]
  --logits-hash      print their hash; equal to `ds4run --logits-hash`
Without either, prints the greedy token after each position.
Exit codes: 0 done, 1 failed, 2 usage.
example: ds4-interp v4.mlir -m v4.gguf --ids=0,17,42 --logits-hash
)";

namespace {

struct Options {
  std::string graph, model, ids, phase, logits;
  uint32_t chunk = 0;
  bool logitsHash = false;
};

Status writeFile(const std::string &path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush())
    return ioError(fmt::format("cannot write {}", path));
  return Status::ok();
}

Status interpret(const Options &options) {
  DS4_ASSIGN(const std::vector<int32_t> ids, readTokenIds(options.ids));
  DS4_ASSIGN(const Gguf gguf, Gguf::open(options.model));
  mlir::MLIRContext context;
  context.loadDialect<ir::Ds4Dialect, mlir::func::FuncDialect>();
  const auto module =
      mlir::parseSourceFile<mlir::ModuleOp>(options.graph, &context);
  if (!module)
    return invalidInput(fmt::format("{} is no graph of the ds4 dialect (see "
                                    "the message above)",
                                    options.graph));
  DS4_ASSIGN(const auto interpreter, Interpreter::open(*module, gguf));

  std::vector<Function> phases;
  for (const Function &function : interpreter->phases())
    if (options.phase.empty() || options.phase == function.name)
      phases.push_back(function);
  if (phases.empty())
    return invalidInput(
        fmt::format("{} has no function @{}", options.graph, options.phase));
  const auto count = static_cast<uint32_t>(ids.size());
  std::vector<uint32_t> rows(count);
  std::iota(rows.begin(), rows.end(), 0);

  std::vector<float> logits;
  for (const PlannedStep &step :
       planSteps(phases, count, rows, options.chunk)) {
    DS4_ASSIGN(const StepResult result,
               interpreter->interpretStep(
                   phases[step.function].name,
                   std::span(ids).subspan(step.first, step.count),
                   step.outputs));
    logits.insert(logits.end(), result.logits.begin(), result.logits.end());
    if (options.logits.empty() && !options.logitsHash)
      for (int32_t token : result.argmax)
        fmt::print("{}\n", token);
  }
  const std::string_view bytes(reinterpret_cast<const char *>(logits.data()),
                               logits.size() * sizeof(float));
  if (!options.logits.empty())
    DS4_TRY(writeFile(options.logits, bytes));
  if (options.logitsHash)
    fmt::print("{}\n", contentHash(bytes));
  return Status::ok();
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("ds4-interp");
  Options options;
  app.set_help_flag();
  bool help = false;
  app.add_flag("-h,--help", help);
  app.add_option("graph", options.graph);
  app.add_option("-m,--model", options.model);
  app.add_option("--ids", options.ids);
  app.add_option("--phase", options.phase);
  app.add_option("--chunk", options.chunk);
  app.add_option("--logits", options.logits);
  app.add_flag("--logits-hash", options.logitsHash);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    fmt::print(stderr, "ds4-interp: {}\n", error.what());
    return 2;
  }
  if (help) {
    fmt::print("{}", kHelp);
    return 0;
  }
  if (options.graph.empty() || options.model.empty() || options.ids.empty()) {
    fmt::print(stderr, "ds4-interp: needs GRAPH.mlir, -m MODEL.gguf and --ids "
                       "(see --help)\n");
    return 2;
  }
  if (Status status = interpret(options); !status) {
    fmt::print(stderr, "ds4-interp: {}\n", status.error().text);
    return 1;
  }
  return 0;
}
