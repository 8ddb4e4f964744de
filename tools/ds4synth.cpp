// ds4synth: makes model files of random weights.
#include "models/Shape.h"
#include "quant/Synthesizer.h"
#include "runtime/Admission.h"
#include "tools/Terminal.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

using namespace ds4;
using namespace ds4::quant;

static constexpr const char *kHelp =
    R"(ds4synth: make a model file of random weights, as large as a published one
usage: ds4synth --shape=NAME|FILE.json -o OUT.gguf [options]
  --shape=NAME|FILE  sizes and formats; built in are
                     {}
  -o OUT.gguf        the file to write
  --seed=N           same seed, same bytes (default 0)
  --layers=N         only the first N layers (default: all)
  --sparse           the header alone, data are a hole that reads as zeros: for
                     ds4c, which reads no data
  --threads=N        threads (default: all)
Every block is valid and every scale sane: the file loads, and what the model
says is finite nonsense. It has no tokenizer.
Exit codes: 0 done, 1 failed, 2 usage.
example: ds4synth --shape=v4-flash-mix -o mix.gguf
         ds4c mix.gguf -o mix.ds4b && ds4run bench mix.ds4b -m mix.gguf
)";

namespace {
struct Options {
  std::string shape, out;
  uint32_t layers = 0;
  SynthesizeOptions synthesize;
};
} // namespace

static Status run(Options &options) {
  DS4_ASSIGN(GgufWriter shape, openShapeWriter(options.shape, options.layers));
  ProgressBar bar("writing");
  options.synthesize.cancelled = interrupted;
  options.synthesize.progress = [&](uint64_t done, uint64_t total) {
    bar.update(done, total,
               fmt::format("{} of {}, {:.2f} GB/s", formatBytes(done),
                           formatBytes(total),
                           static_cast<double>(done) / 1e9 / bar.seconds()));
  };
  return synthesizeFile(std::move(shape), options.out, options.synthesize);
}

int main(int argc, char **argv) {
  CLI::App app("ds4synth");
  Options options;
  app.set_help_flag();
  bool help = false;
  app.add_flag("-h,--help", help);
  app.add_option("--shape", options.shape);
  app.add_option("-o", options.out);
  app.add_option("--seed", options.synthesize.seed);
  app.add_option("--layers", options.layers)->check(CLI::PositiveNumber);
  app.add_flag("--sparse", options.synthesize.sparse);
  app.add_option("--threads", options.synthesize.threads)
      ->check(CLI::Range(1, 1024));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    fmt::print(stderr, "ds4synth: {}\n", error.what());
    return 2;
  }
  if (help) {
    fmt::print(fmt::runtime(kHelp), shapeNames());
    return 0;
  }
  if (options.shape.empty() || options.out.empty()) {
    fmt::print(stderr,
               "ds4synth: needs --shape and -o OUT.gguf (see --help)\n");
    return 2;
  }
  installInterruptHandler();
  if (Status status = run(options); !status) {
    fmt::print(stderr, "ds4synth: {}\n", status.error().text);
    return 1;
  }
  return 0;
}
