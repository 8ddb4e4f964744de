// RunOptions.cpp - CLI11 reads the options; the help text is ours, since one
// screen that says what matters first cannot be generated.
#include "tools/RunOptions.h"

#include "tools/BenchCommand.h"
#include "tools/CompileCommand.h"
#include "tools/DevicesCommand.h"
#include "tools/EvalCommand.h"
#include "tools/InspectCommand.h"
#include "tools/TokenizeCommand.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <iostream>

namespace ds4 {

static constexpr const char *kHelp =
    R"(ds4run: run a bundle
usage: ds4run BUNDLE -m MODEL.gguf (-p TEXT | -i | --raw=TEXT | --ids=N,...)
       ds4run BUNDLE -m MODEL.gguf --check=GOLD.json
       ds4run BUNDLE -m MODEL.gguf --collect-imatrix=OUT.gguf --text=FILE
       ds4run BUNDLE --print-bundle
       ds4run eval BUNDLE -m MODEL.gguf [--text=FILE] [--against=OTHER]
       ds4run inspect MODEL.gguf [--memory=SIZE] [--context=N] [--kv=KIND]
       ds4run bench BUNDLE (-m MODEL.gguf | --synthetic=SEED)
       ds4run devices
       ds4run compile BUNDLE --for=CHIP
       ds4run tokenize -m MODEL.gguf [TEXT] [--special] [--decode]
prompt
  -p TEXT            a user's message; '-' reads standard input
  -i                 a conversation, one line a message; -p is its first message
  --raw=TEXT         no chat format; names of special tokens count
  --ids=N,...|FILE   token ids as they are, or a text file of them
  --system=TEXT      system message
  --think            reason before answering (default --no-think)
sampling
  --tokens=N         most tokens to generate (default 256)
  --temperature=T    0 is greedy (default 1)
  --top-k=N --top-p=P --min-p=P    filters, in this order (default: none)
  --seed=N           same seed, same tokens (default 0)
running
  --device=NAME      host (default), cuda, hip; cuda:1 is the second of them
  --threads=N        of the CPU: for the host device and to compile kernels
                     (default: one a core)
  --prefill-chunk=N  most tokens a prefill step (default: the bundle's)
looking inside
  --print-bundle     what is inside, then exit
  --logits-hash      hash of the logits of every prompt token, then exit
  --check=FILE       compare with a reference dump
  --tolerance=T      logits: absolute, activations: relative (default 0.001)
  --kl=K             judge logits by their mean KL: for quantised weights
  --collect-imatrix=FILE    importance matrix of a text, for ds4quant and
                     llama.cpp; the bundle needs ds4c --imatrix=true
  --moments=N|full   with it: products of inputs within blocks of N columns,
                     for ds4quant --search=better (8 N bytes an input)
  --text=FILE        the text; --chunk-size=N --chunks=N as in eval --help
  --special          names of special tokens in the text count
  --trace=FILE       time of each launch, by op and layer, for chrome://tracing
  --version  --help
Ctrl-C ends the answer, twice ds4run. Exit codes: 0 done, 1 failed, 2 usage.
example: ds4run v4.ds4b -m v4.gguf -p "Hello" --tokens=32
)";

void addDeviceOptions(CLI::App &command, RunOptions &options) {
  command.add_option("--device", options.device);
  command.add_option("--threads", options.threads)->check(CLI::Range(1, 1024));
  command.add_option("--prefill-chunk", options.prefillChunk)
      ->check(CLI::Range(1, 1 << 20));
}

void addChunkOptions(CLI::App &command, RunOptions &options) {
  command.add_option("--chunk-size", options.chunkTokens)
      ->check(CLI::Range(2, 1 << 20));
  command.add_option("--chunks", options.chunks)->check(CLI::Range(1, 1 << 30));
}

RunCommand parseRunOptions(int argc, char **argv) {
  RunCommand command;
  RunOptions &it = command.options;
  CLI::App app;
  app.set_help_flag();
  CLI::App *bench = app.add_subcommand("bench");
  bench->set_help_flag("--help");
  addBenchOptions(*bench, it);
  CLI::App *compile = app.add_subcommand("compile");
  compile->set_help_flag("--help");
  CompileOptions compileOptions;
  addCompileOptions(*compile, compileOptions);
  CLI::App *devices = app.add_subcommand("devices");
  devices->set_help_flag();
  CLI::App *tokenize = app.add_subcommand("tokenize");
  tokenize->set_help_flag("--help");
  TokenizeOptions tokenizeOptions;
  addTokenizeOptions(*tokenize, tokenizeOptions);
  CLI::App *inspect = app.add_subcommand("inspect");
  inspect->set_help_flag("--help");
  InspectOptions inspectOptions;
  addInspectOptions(*inspect, inspectOptions);
  CLI::App *eval = app.add_subcommand("eval");
  eval->set_help_flag("--help");
  addEvalOptions(*eval, it);
  bool help = false, version = false;
  app.add_flag("-h,--help", help);
  app.add_flag("--version", version);
  app.add_option("BUNDLE", it.bundle);
  app.add_option("-m,--model", it.model);
  app.add_option("-p,--prompt", it.prompt);
  app.add_option("--raw", it.raw);
  app.add_option("--ids", it.ids);
  app.add_flag("-i,--interactive", it.interactive);
  app.add_option("--system", it.system);
  app.add_flag("--think,!--no-think", it.think);
  app.add_option("--tokens", it.tokens);
  app.add_option("--temperature", it.sampling.temperature)
      ->check(CLI::NonNegativeNumber);
  app.add_option("--top-k", it.sampling.topK);
  app.add_option("--top-p", it.sampling.topP)->check(CLI::Range(0.0, 1.0));
  app.add_option("--min-p", it.sampling.minP)->check(CLI::Range(0.0, 1.0));
  app.add_option("--seed", it.sampling.seed);
  addDeviceOptions(app, it);
  app.add_flag("--logits-hash", it.logitsHash);
  app.add_option("--collect-imatrix", it.imatrix);
  app.add_option_function<std::string>(
         "--moments",
         [&it](const std::string &value) {
           it.moments = value == "full"
                            ? kWholeRows
                            : static_cast<uint32_t>(std::stoul(value));
         })
      ->check(CLI::Range(1, 1 << 20) | CLI::IsMember({"full"}));
  app.add_option("--text", it.text);
  app.add_flag("--special", it.special);
  addChunkOptions(app, it);
  app.add_option("--trace", it.traceFile);
  app.add_flag("--print-bundle", it.printBundle);
  app.add_option("--check", it.gold);
  app.add_option("--tolerance", it.goldLimits.tolerance)
      ->check(CLI::NonNegativeNumber);
  app.add_option("--kl", it.goldLimits.kl)->check(CLI::NonNegativeNumber);

  auto badUsage = [&](std::string_view text) {
    fmt::print(stderr, "ds4run: {}; see ds4run --help\n", text);
    command.exitCode = 2;
    return command;
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    fmt::print("{}", app.get_subcommands().front()->help());
    command.exitCode = 0;
    return command;
  } catch (const CLI::ParseError &error) {
    return badUsage(error.what());
  }
  if (help) {
    fmt::print("{}", kHelp);
    command.exitCode = 0;
    return command;
  }
  if (version) {
    fmt::print("ds4run {}\n", DS4_VERSION);
    command.exitCode = 0;
    return command;
  }
  if (*devices) {
    fmt::print("{}", devicesText());
    command.exitCode = 0;
    return command;
  }
  if (*compile) {
    command.exitCode = runCompileCommand(compileOptions);
    return command;
  }
  if (*tokenize) {
    command.exitCode =
        runTokenizeCommand(tokenizeOptions, std::cin, std::cout, std::cerr);
    return command;
  }
  if (*inspect) {
    command.exitCode = runInspectCommand(inspectOptions, std::cout, std::cerr);
    return command;
  }
  if (*bench) {
    it.bench = true;
    if (std::string wrong = checkBenchOptions(it); !wrong.empty())
      return badUsage(wrong);
    return command;
  }
  if (*eval) {
    it.eval = true;
    if (std::string wrong = checkEvalOptions(it); !wrong.empty())
      return badUsage(wrong);
    return command;
  }
  if (it.bundle.empty())
    return badUsage("no bundle given");
  if (it.printBundle)
    return command;
  if (it.model.empty())
    return badUsage("no model file given (-m MODEL.gguf)");
  int prompts = (it.prompt || it.interactive) + it.raw.has_value() +
                !it.ids.empty() + !it.gold.empty() + !it.imatrix.empty();
  if (prompts == 0)
    return badUsage("no prompt given (-p, -i, --raw, --ids, --check or "
                    "--collect-imatrix)");
  if (prompts > 1)
    return badUsage("more than one of -p or -i, --raw, --ids, --check, "
                    "--collect-imatrix");
  if (it.imatrix.empty() != it.text.empty())
    return badUsage("--collect-imatrix=FILE and --text=FILE go together");
  if ((it.moments || it.special) && it.imatrix.empty())
    return badUsage("--moments and --special belong to --collect-imatrix");
  if (it.interactive && it.prompt == "-")
    return badUsage("-p - and -i both read standard input");
  if (it.logitsHash &&
      (it.interactive || !it.gold.empty() || !it.imatrix.empty()))
    return badUsage("--logits-hash needs one prompt (-p, --raw or --ids)");
  return command;
}

} // namespace ds4
