// EvalCommand.cpp - opens one or two sessions, lets runtime/Evaluation.h
// measure, and says what was measured. A bundle belongs to one model file, so
// another model brings its own.
#include "tools/EvalCommand.h"

#include "runtime/Evaluation.h"
#include "tools/OpenSession.h"
#include "tools/Terminal.h"
#include "tools/TextFile.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace ds4 {
namespace {

/// What --against names.
enum class Against { nothing, model, dump, logits };

/// Decided by how the file begins.
Result<Against> againstOf(const std::string &path) {
  if (path.empty())
    return Against::nothing;
  std::ifstream file(path, std::ios::binary);
  std::string start(kSavedLogitsMagic.size(), '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<size_t>(file.gcount()));
  if (start.empty())
    return ioError(fmt::format("--against: cannot read {}", path));
  if (start == kSavedLogitsMagic)
    return Against::logits;
  if (start.starts_with("GGUF"))
    return Against::model;
  if (start[std::min(start.find_first_not_of(" \t\r\n"), start.size() - 1)] ==
      '{')
    return Against::dump;
  return invalidInput(
      fmt::format("--against={} is neither a GGUF file nor a reference dump "
                  "(JSON) nor logits that --save-logits wrote",
                  path));
}

/// A model to run, and what it runs on.
struct OpenModel {
  Gguf file;
  std::unique_ptr<Session> session;
};

Result<OpenModel> openModel(const std::string &bundlePath,
                            const std::string &model,
                            const RunOptions &options) {
  DS4_ASSIGN(Bundle bundle, openBundle(bundlePath));
  DS4_ASSIGN(Gguf file, Gguf::open(model));
  DS4_ASSIGN(std::unique_ptr<Session> session,
             openSession(std::move(bundle), file, options));
  session->hooks.cancelled = interrupted;
  return OpenModel{std::move(file), std::move(session)};
}

/// Error: the files do not turn text into the same tokens.
Status checkSameTokens(const Gguf &ours, const Gguf &theirs) {
  DS4_ASSIGN(const std::string left, tokenizerHash(ours));
  DS4_ASSIGN(const std::string right, tokenizerHash(theirs));
  if (left != right)
    return invalidInput(fmt::format("{} and {} differ in their tokens or "
                                    "merges: models with other tokens cannot "
                                    "be compared",
                                    ours.path(), theirs.path()));
  return Status::ok();
}

std::string perplexityText(const Perplexity &it) {
  return fmt::format("{:.4f} +/- {:.4f}", it.value(), it.error());
}

/// What was compared; `reference` names what with, of the kind `against`.
std::string comparisonText(const Evaluation &it, std::string_view reference,
                           Against against) {
  const LogitComparison &logits = it.logits;
  const auto rows = static_cast<double>(logits.rows());
  std::string text = fmt::format("against    {}\n", reference);
  if (it.theirs.tokens())
    text += fmt::format("           its perplexity {}\n",
                        perplexityText(it.theirs));
  text += fmt::format(
      "KL         mean {:.6f}, median {:.6f}, p99 {:.6f}, largest {:.6f} nats\n"
      "top-1      {:.2f} % agree ({} of {} tokens)\n",
      logits.meanKl(), logits.klQuantile(0.5), logits.klQuantile(0.99),
      logits.klQuantile(1), 100 * static_cast<double>(logits.top1()) / rows,
      logits.top1(), logits.rows());
  if (!it.activations.empty())
    text += "\nrelative error of activations, sqrt(sum (ours - theirs)^2 / sum "
            "theirs^2):\n" +
            it.activations.table();
  else if (against == Against::logits)
    text += "\nno table of layers: saved logits bring no activations\n";
  else
    text += "\nno table of layers: one side has no activations; bundles have "
            "them with\nds4c --trace-points=true\n";
  return text;
}

/// Bar and progress function of a run.
class Bar {
public:
  EvaluationProgress progress() {
    return [this](uint64_t done, uint64_t total, const Evaluation &it) {
      std::string note = fmt::format("{}/{} tokens, {:.1f} tok/s", done, total,
                                     static_cast<double>(done) / bar.seconds());
      if (it.ours.tokens())
        note += fmt::format(", perplexity {:.4f}", it.ours.value());
      if (it.logits.rows())
        note += fmt::format(", KL {:.4f}", it.logits.meanKl());
      bar.update(done, total, note);
    };
  }

private:
  ProgressBar bar{"eval"};
};

Result<std::string> dumpReport(Session &session, const RunOptions &options) {
  DS4_ASSIGN(const GoldDump dump, readGoldDump(options.against));
  Evaluation result;
  {
    Bar bar;
    DS4_ASSIGN(result, evaluateDump(session, dump, bar.progress()));
  }
  std::string text = fmt::format("dump       {} prompts of {}\n",
                                 dump.prompts.size(), options.against);
  if (result.ours.tokens())
    text += fmt::format("perplexity {} over {} tokens of the prompts\n",
                        perplexityText(result.ours), result.ours.tokens());
  return text + comparisonText(result, options.against, Against::dump);
}

Result<std::string> textReport(OpenModel &model, const RunOptions &options,
                               Against against) {
  DS4_ASSIGN(const Tokenizer tokenizer, loadTokenizer(model.file));
  DS4_ASSIGN(const TextChunks chunks,
             readTextChunks(tokenizer, options.text, options.chunkTokens,
                            options.chunks));
  EvaluationFiles files;
  std::optional<OpenModel> other;
  std::optional<SavedLogitsReader> saved;
  std::optional<SavedLogitsWriter> save;
  std::string reference = options.against;
  if (against == Against::model) {
    DS4_ASSIGN(other,
               openModel(options.againstBundle, options.against, options));
    DS4_TRY(checkSameTokens(model.file, other->file));
    files.other = other->session.get();
  } else if (against == Against::logits) {
    DS4_ASSIGN(saved, SavedLogitsReader::open(options.against));
    DS4_ASSIGN(const std::string tokenizerOfFile, tokenizerHash(model.file));
    DS4_TRY(saved->check(tokenizerOfFile, chunks));
    reference += fmt::format(": saved logits of {}", saved->info().model);
    files.saved = &*saved;
  }
  if (!options.saveLogits.empty()) {
    const Manifest &manifest = model.session->manifest();
    DS4_ASSIGN(std::string hash, tokenizerHash(model.file));
    DS4_ASSIGN(save, SavedLogitsWriter::create(
                         options.saveLogits,
                         {manifest.modelName, manifest.fingerprint,
                          std::move(hash), model.session->vocab(), chunks}));
    files.save = &*save;
  }
  Evaluation result;
  {
    Bar bar;
    DS4_ASSIGN(result,
               evaluateText(*model.session, chunks, files, bar.progress()));
  }
  if (save)
    DS4_TRY(save->finish());
  std::string text = fmt::format(
      "text       {}\n"
      "           {} chunk{} of {} tokens, BOS first; {} tokens at the end "
      "left out\n"
      "perplexity {} over {} tokens: the second half of each chunk\n",
      options.text, chunks.size(), chunks.size() == 1 ? "" : "s", chunks.length,
      chunks.leftOut, perplexityText(result.ours), result.ours.tokens());
  if (save)
    text += fmt::format("saved      {}: logits of {} tokens\n",
                        options.saveLogits, result.ours.tokens());
  if (other || saved)
    text += comparisonText(result, reference, against);
  return text;
}

} // namespace

static constexpr const char *kHelp =
    R"(ds4run eval: how good a model is, alone or against another
usage: ds4run eval BUNDLE -m MODEL.gguf [--text=FILE] [--against=WHAT] [options]
  --text=FILE        perplexity, as llama.cpp measures it: the text is cut into
                     chunks that begin with BOS; the second half of each counts
  --against=OTHER.gguf    over the text: KL(theirs || ours), mean and quantiles;
                     top-1 agreement; error of the activations of each layer
  --against-bundle=BUNDLE    what OTHER.gguf runs on: a bundle is made for one
                     model, so the other needs its own (default OTHER.ds4b)
  --against=LOGITS   the same against logits that --save-logits wrote, without
                     the error of layers: one model in memory at a time
  --save-logits=FILE    keep the logits over the text, 2 bytes each
  --against=GOLD.json    the same against a reference dump, over its prompts
  --chunk-size=N     tokens of a chunk (default 512)
  --chunks=N         most chunks (default: the whole text)
  --device=NAME      host (default), cuda, hip, cuda:1, ...
  --threads=N        of the CPU (default: one a core)
  --prefill-chunk=N  most tokens a prefill step (default: the bundle's)
With OTHER.gguf both models are in memory at once. Bundles compiled with
--logits=all are faster, with --trace-points=true they give the table of layers.
example: ds4c v4-f16.gguf --profile=host-demo -o v4-f16.ds4b
         ds4run eval v4.ds4b -m v4.gguf --text=wiki.txt --against=v4-f16.gguf
)";

void addEvalOptions(CLI::App &command, RunOptions &options) {
  command.formatter_fn([](const CLI::App *, std::string, CLI::AppFormatMode) {
    return std::string(kHelp);
  });
  command.add_option("BUNDLE", options.bundle)->required();
  command.add_option("-m,--model", options.model)->required();
  command.add_option("--text", options.text);
  command.add_option("--against", options.against);
  command.add_option("--against-bundle", options.againstBundle);
  command.add_option("--save-logits", options.saveLogits);
  addChunkOptions(command, options);
  addDeviceOptions(command, options);
}

std::string checkEvalOptions(const RunOptions &options) {
  if (options.text.empty() && options.against.empty())
    return "eval needs --text=FILE, --against=GOLD.json or both";
  if (options.text.empty() && !options.saveLogits.empty())
    return "eval --save-logits=FILE needs --text=FILE";
  const Result<Against> against = againstOf(options.against);
  if (!against)
    return {}; // no matter of usage: runEvalCommand says it
  if (options.text.empty() && *against != Against::dump)
    return "eval --against needs --text=FILE, unless it is a reference dump";
  if (!options.againstBundle.empty() && *against != Against::model)
    return "--against-bundle belongs to --against=OTHER.gguf";
  return {};
}

Status runEvalCommand(const RunOptions &given) {
  RunOptions options = given;
  if (options.againstBundle.empty())
    options.againstBundle =
        std::filesystem::path(options.against).replace_extension(".ds4b");
  DS4_ASSIGN(const Against against, againstOf(options.against));
  DS4_ASSIGN(OpenModel model,
             openModel(options.bundle, options.model, options));
  std::string report;
  if (!options.text.empty()) {
    DS4_ASSIGN(report, textReport(model, options, against));
  }
  if (against == Against::dump) {
    DS4_ASSIGN(const std::string dump, dumpReport(*model.session, options));
    report += (report.empty() ? "" : "\n") + dump;
  }
  fmt::print("{}", report);
  return Status::ok();
}

} // namespace ds4
