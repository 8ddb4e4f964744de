// ds4c.cpp - the command line of the compiler: options, help, exit codes
// (0 done, 1 failed, 2 bad usage). What it does is in Compilation.cpp.
#include "codegen/BundleWriter.h"
#include "codegen/EmbeddedText.h"
#include "models/Shape.h"
#include "tools/Compilation.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <unistd.h>

extern const ds4::EmbeddedText kProfileTexts[];
extern const unsigned kProfileTextsCount;

namespace ds4 {

static std::span<const EmbeddedText> builtInProfiles() {
  return {kProfileTexts, kProfileTextsCount};
}

/// "prefill_chunk" as an option: "--prefill-chunk".
static std::string optionName(std::string_view key) {
  std::string name = "--" + std::string(key);
  std::ranges::replace(name, '_', '-');
  return name;
}

static std::string profileNames() {
  std::string names;
  for (const EmbeddedText &profile : builtInProfiles()) {
    if (!names.empty())
      names += ", ";
    names += profile.path.substr(0, profile.path.rfind('.'));
  }
  return names;
}

namespace {

/// The help text, in the shape of style section "--help": one screen.
class HelpFormatter : public CLI::Formatter {
public:
  std::string make_help(const CLI::App *, std::string,
                        CLI::AppFormatMode) const override {
    std::string text =
        "ds4c: compile a model file to a kernel bundle\n"
        "usage: ds4c MODEL.gguf|GRAPH.mlir|--shape=NAME [options]\n"
        "  --shape=NAME|FILE      a model's shape instead of its file\n"
        "  --profile=NAME|FILE    what to specialise for (default strix)\n"
        "  -o PATH                bundle or text to write\n"
        "  --emit=STAGE           model|fused|planned|hip|plan|table|bundle "
        "(default)\n"
        "  --from=STAGE           resume from text of model|fused|planned\n"
        "  --dump=DIR             every stage, numbered; --from reads them\n"
        "  --fp2=READING          dual|affine|fp2s|s40: type 107 (default "
        "dual)\n"
        "  --precompile           kernels for gfx1151 now, not when loaded\n"
        "  --no-cache             compile again what was compiled before\n"
        "  --version              version, then exit\n"
        "settings of the profile, each can be overridden:\n";
    for (const ProfileKey &key : profileKeys())
      text += fmt::format("  {:<22} {} ({})\n", optionName(key.name) + "=…",
                          key.help, key.values);
    return text + fmt::format("profiles: {}, or a TOML file\n"
                              "shapes: {}, or a JSON file\n"
                              "example: ds4c v4.gguf --profile=strix -o "
                              "v4.ds4b\n",
                              profileNames(), shapeNames());
  }
};

/// What the command line said, as text.
struct Arguments {
  std::string input, shape, profile = "strix", output, dump;
  std::string emit = "bundle", from, fp2 = "dual";
  bool noCache = false, precompile = false;
  std::vector<std::string> overrides; ///< one a profile key, empty: not given
};

} // namespace

static Result<Profile> loadProfile(const std::string &name) {
  for (const EmbeddedText &profile : builtInProfiles())
    if (profile.path == name + ".toml")
      return parseProfile(profile.text, fmt::format("profile {}", name));
  std::ifstream file(name, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file)
    return invalidInput(fmt::format("profile '{}' is neither built in ({}) nor "
                                    "a file",
                                    name, profileNames()));
  return parseProfile(text.view(), name);
}

/// Errors here are bad usage, but for the profile's own contents.
static Result<CompileRequest> makeRequest(const Arguments &arguments) {
  CompileRequest request;
  if (arguments.input.empty() == arguments.shape.empty())
    return invalidInput(
        arguments.input.empty()
            ? "the input is missing: MODEL.gguf, GRAPH.mlir or "
              "--shape=NAME"
            : "--shape stands for a model file: give one input");
  request.input = arguments.input;
  request.shape = arguments.shape;
  request.output = arguments.output;
  request.precompile = arguments.precompile;
  request.dump = arguments.dump;
  request.useCache = !arguments.noCache;
  request.showProgress = isatty(STDERR_FILENO);

  std::optional<Stage> emit = stageFromName(arguments.emit);
  if (!emit)
    return invalidInput(fmt::format("--emit={} is not one of model, fused, "
                                    "planned, hip, plan, table, bundle",
                                    arguments.emit));
  request.emit = *emit;
  std::optional<Fp2Reading> fp2 = fp2ReadingFromName(arguments.fp2);
  if (!fp2)
    return invalidInput(fmt::format(
        "--fp2={} is not one of dual, affine, fp2s, s40", arguments.fp2));
  request.fp2 = *fp2;
  if (!arguments.from.empty()) {
    if (!request.shape.empty())
      return invalidInput("--from resumes from a text; --shape has none");
    request.from = stageFromName(arguments.from);
    if (!request.from || *request.from > Stage::planned)
      return invalidInput(fmt::format("--from={} is not one of model, fused, "
                                      "planned",
                                      arguments.from));
  } else if (request.input.extension() == ".mlir") {
    request.from = Stage::model;
  }
  if (request.from && *request.from > request.emit)
    return invalidInput(fmt::format("--emit={} is earlier than --from={}",
                                    arguments.emit, arguments.from));
  if (request.emit == Stage::bundle && request.output.empty())
    return invalidInput("-o PATH is missing: the bundle to write");
  return request;
}

static Status applyProfile(const Arguments &arguments,
                           CompileRequest &request) {
  std::span<const ProfileKey> keys = profileKeys();
  if (!request.from) {
    DS4_ASSIGN(request.profile, loadProfile(arguments.profile));
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::string &value = arguments.overrides[i];
    if (value.empty())
      continue;
    const std::string option = optionName(keys[i].name);
    if (keys[i].name == "target")
      request.target = value;
    else if (request.from)
      return invalidInput(fmt::format("{} applies to a GGUF file; {} has its "
                                      "settings inside",
                                      option, request.input.string()));
    DS4_TRY(request.profile.set(keys[i].name, value, option));
  }
  return Status::ok();
}

static int report(const Error &error, int code) {
  fmt::print(stderr, "ds4c: {}\n", error.text);
  return code;
}

static int run(int argc, char **argv) {
  Arguments arguments;
  CLI::App app;
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", codegen::toolVersion());
  app.add_option("input", arguments.input);
  app.add_option("--shape", arguments.shape);
  app.add_option("--profile", arguments.profile);
  app.add_option("-o", arguments.output);
  app.add_option("--emit", arguments.emit);
  app.add_option("--from", arguments.from);
  app.add_option("--dump", arguments.dump);
  app.add_option("--fp2", arguments.fp2);
  app.add_flag("--precompile", arguments.precompile);
  app.add_flag("--no-cache", arguments.noCache);
  arguments.overrides.resize(profileKeys().size());
  for (size_t i = 0; i < profileKeys().size(); ++i)
    app.add_option(optionName(profileKeys()[i].name), arguments.overrides[i]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &success) {
    return app.exit(success); // prints help or version
  } catch (const CLI::ParseError &error) {
    return report(invalidInput(fmt::format("{}; ds4c --help lists the options",
                                           error.what())),
                  2);
  }
  Result<CompileRequest> request = makeRequest(arguments);
  if (!request)
    return report(request.error(), 2);
  if (Status status = applyProfile(arguments, *request); !status)
    return report(status.error(), 2);
  if (Status status = compile(*request); !status)
    return report(status.error(), 1);
  return 0;
}

} // namespace ds4

int main(int argc, char **argv) { return ds4::run(argc, argv); }
