// ds4quant: makes quantised GGUF files from f16, bf16 or f32 ones.
#include "codegen/EmbeddedText.h"
#include "quant/Quantizer.h"
#include "tools/Terminal.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <thread>

using namespace ds4;
using namespace ds4::quant;

extern const EmbeddedText kRecipeTexts[];
extern const unsigned kRecipeTextsCount;

static constexpr const char *kHelp = R"(ds4quant: quantise a GGUF file
usage: ds4quant IN.gguf -o OUT.gguf --recipe=NAME|FILE.toml [options]
  -o OUT.gguf            the file to write
  --recipe=NAME|FILE     which tensor gets which format; built in are
                         {}
  --imatrix=FILE         importance of columns, in either form of llama.cpp
  --search=better        where the matrix has moments, choose codes by the error
                         of outputs (default: reference)
  --budget=BYTES         most bytes of the file: tensors get more or fewer bits
                         than the recipe says where that lowers errors
  --report               print format, bits a weight and relative squared error
                         of each tensor, and of its outputs where moments are
  --threads=N            threads (default: all)
Exit codes: 0 done, 1 failed, 2 usage.
example: ds4quant v4-f16.gguf -o v4.gguf --recipe=strix --report
)";

/// The recipe built in as `name`, or the text of that file.
static Result<Recipe> loadRecipe(const std::string &name) {
  std::string known;
  for (unsigned i = 0; i < kRecipeTextsCount; ++i) {
    const EmbeddedText &recipe = kRecipeTexts[i];
    if (recipe.path == name + ".toml")
      return parseRecipe(recipe.text, recipe.path);
    known += fmt::format("{}{}", known.empty() ? "" : ", ",
                         recipe.path.substr(0, recipe.path.size() - 5));
  }
  std::ifstream file(name, std::ios::binary);
  if (!file)
    return invalidInput(fmt::format("--recipe={}: neither a readable file nor "
                                    "one of {}",
                                    name, known));
  return parseRecipe(std::string(std::istreambuf_iterator<char>(file), {}),
                     name);
}

static std::string recipeNames() {
  std::string names;
  for (unsigned i = 0; i < kRecipeTextsCount; ++i) {
    const std::string_view path = kRecipeTexts[i].path;
    names += fmt::format("{}{}", names.empty() ? "" : ", ",
                         path.substr(0, path.size() - 5));
  }
  return names;
}

static void printReport(const std::vector<TensorReport> &reports) {
  uint64_t bytes = 0, elements = 0;
  fmt::print("{:<40} {:<20} {:>12} {:>8} {:>12} {:>12}\n", "tensor", "format",
             "bytes", "bits", "error", "of outputs");
  for (const TensorReport &report : reports) {
    fmt::print("{:<40} {:<20} {:>12} {:>8.4f} {:>12.4e} {:>12}\n", report.name,
               weightFormatInfo(report.to).name, report.bytes,
               report.bitsPerWeight(), report.relativeError(),
               report.outputPower > 0
                   ? fmt::format("{:.4e}", report.relativeOutputError())
                   : "");
    bytes += report.bytes;
    elements += report.elements;
  }
  fmt::print("{} bytes of weights, {:.4f} bits a weight\n", bytes,
             8.0 * static_cast<double>(bytes) / static_cast<double>(elements));
}

namespace {
struct Options {
  std::string in, out, recipe, imatrix, search = "reference";
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  std::optional<uint64_t> budget;
  bool report = false;
};
} // namespace

static Status run(const Options &options) {
  DS4_ASSIGN(const Gguf in, Gguf::open(options.in));
  QuantizeOptions quantize;
  DS4_ASSIGN(quantize.recipe, loadRecipe(options.recipe));
  std::optional<Imatrix> imatrix;
  if (!options.imatrix.empty()) {
    DS4_ASSIGN(imatrix, Imatrix::open(options.imatrix));
    quantize.imatrix = &*imatrix;
  }
  quantize.search = options.search == "better";
  quantize.budget = options.budget;
  quantize.threads = options.threads;
  quantize.measure = options.report;
  uint64_t elements = 0;
  for (const GgufTensor &tensor : in.tensors())
    elements += tensor.elements();
  std::vector<TensorReport> reports;
  {
    ProgressBar bar("quantising");
    quantize.progress = [&](uint64_t done, const std::string &tensor) {
      bar.update(done, elements, tensor);
    };
    DS4_ASSIGN(reports, quantizeFile(in, options.out, quantize));
  }
  if (options.report)
    printReport(reports);
  return Status::ok();
}

int main(int argc, char **argv) {
  CLI::App app("ds4quant");
  Options options;
  app.set_help_flag();
  bool help = false;
  app.add_flag("-h,--help", help);
  app.add_option("in", options.in);
  app.add_option("-o", options.out);
  app.add_option("--recipe", options.recipe);
  app.add_option("--imatrix", options.imatrix);
  app.add_option("--search", options.search)
      ->check(CLI::IsMember({"reference", "better"}));
  app.add_option("--budget", options.budget)->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads)->check(CLI::Range(1, 1024));
  app.add_flag("--report", options.report);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    fmt::print(stderr, "ds4quant: {}\n", error.what());
    return 2;
  }
  if (help) {
    fmt::print(fmt::runtime(kHelp), recipeNames());
    return 0;
  }
  if (options.in.empty() || options.out.empty() || options.recipe.empty()) {
    fmt::print(stderr, "ds4quant: needs IN.gguf, -o OUT.gguf and --recipe (see "
                       "--help)\n");
    return 2;
  }
  if (Status status = run(options); !status) {
    fmt::print(stderr, "ds4quant: {}\n", status.error().text);
    return 1;
  }
  return 0;
}
