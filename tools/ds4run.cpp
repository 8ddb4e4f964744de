// ds4run.cpp - opens a bundle and a model and does what the options say.
#include "runtime/GoldCheck.h"
#include "runtime/Session.h"
#include "tools/BenchCommand.h"
#include "tools/ChromeTrace.h"
#include "tools/CollectImatrix.h"
#include "tools/EvalCommand.h"
#include "tools/Generate.h"
#include "tools/OpenSession.h"
#include "tools/PrintBundle.h"
#include "tools/RunOptions.h"
#include "tools/Terminal.h"

#include <fmt/format.h>

using namespace ds4;

/// Returns whether the session agrees with the dump.
static Result<bool> check(Session &session, const RunOptions &options) {
  DS4_ASSIGN(GoldDump dump, readGoldDump(options.gold));
  session.hooks.cancelled = interrupted;
  DS4_ASSIGN(GoldReport report, checkGold(session, dump, options.goldLimits));
  fmt::print("{}", goldReportText(report));
  return report.good();
}

/// Returns whether all is well; errors are for the user.
static Result<bool> run(const RunOptions &options) {
  if (options.bench) {
    DS4_TRY(runBenchCommand(options));
    return true;
  }
  if (options.eval) {
    DS4_TRY(runEvalCommand(options));
    return true;
  }
  DS4_ASSIGN(Bundle bundle, openBundle(options.bundle));
  if (options.printBundle) {
    fmt::print("{}", bundleText(bundle));
    return true;
  }
  DS4_ASSIGN(Gguf file, Gguf::open(options.model));
  // Before the weights, so that a bad tokenizer shows at once.
  std::optional<Tokenizer> tokenizer;
  if (options.gold.empty()) {
    DS4_ASSIGN(tokenizer, loadTokenizer(file));
  }
  DS4_ASSIGN(std::unique_ptr<Session> session,
             openSession(std::move(bundle), file, options));
  std::optional<ChromeTrace> trace;
  if (!options.traceFile.empty()) {
    DS4_ASSIGN(trace, ChromeTrace::create(options.traceFile));
    trace->attach(*session);
  }
  bool good = true;
  if (!options.gold.empty()) {
    DS4_ASSIGN(good, check(*session, options));
  } else if (!options.imatrix.empty()) {
    DS4_TRY(collectImatrix(*session, *tokenizer, options));
  } else {
    DS4_TRY(generate(*session, *tokenizer, options));
  }
  if (trace)
    DS4_TRY(trace->finish());
  return good;
}

int main(int argc, char **argv) {
  RunCommand command = parseRunOptions(argc, argv);
  if (command.exitCode)
    return *command.exitCode;
  installInterruptHandler();
  Result<bool> good = run(command.options);
  if (!good) {
    fmt::print(stderr, "ds4run: {}\n", good.error().text);
    return 1;
  }
  return *good ? 0 : 1;
}
