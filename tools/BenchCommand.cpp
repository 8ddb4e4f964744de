// BenchCommand.cpp - options, table and JSON of Bench.
#include "tools/BenchCommand.h"

#include "runtime/Admission.h"
#include "runtime/SyntheticWeights.h"
#include "tools/OpenSession.h"
#include "tools/ReadBandwidth.h"
#include "tools/Terminal.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ds4 {

static constexpr const char *kHelp =
    R"(ds4run bench: how fast a bundle runs
usage: ds4run bench BUNDLE (-m MODEL.gguf | --synthetic=SEED) [options]
  --synthetic=SEED   random weights: no model file is needed, and the bundle
                     may be of a shape (ds4c --shape)
  --prefill=N,...    prompts to time (default 512,2048,8192)
  --depths=N,...     positions at which to decode and to verify 1 to 5 tokens
                     (default 0,2048,8192,32768)
  --tokens=N         steps of decoding to time (default 128)
  --ops              time of prompts, of decode steps and of those that verify
                     4 tokens, by op
  --json             one JSON object instead of the table, see below
  --device=NAME      host (default), cuda, hip, cuda:1, ...
  --threads=N        of the CPU (default: one a core)
  --prefill-chunk=N  most tokens a prefill step (default: the bundle's)
The table has whole steps with the selection of the next token. `weights` is
what one token needs, GB/s how fast a decode step reads it, `of read` the share
of what a kernel that only reads reaches. `steps` is the time of a verify step
in steps of one token. What the bundle cannot do is left out, with the reason.
Keys of the JSON object, times in seconds, rates a second: model, device,
target, context, weights_bytes, load_seconds, read_bytes_per_second (0:
unknown), weight_bytes_per_token; tests [{test: prefill, verify or decode,
tokens, depth, runs, seconds, tokens_per_second, and of verify decode_steps, of
decode bytes_per_second and share_of_read}]; ops [{test, tokens, depth, op,
grid, block, launches, seconds, weight_bytes}]; left_out [{test, reason}].
example: ds4c --shape=v4-flash-mix --target=sm_90 -o mix.ds4b
         ds4run bench mix.ds4b --synthetic=1 --device=cuda
)";

void addBenchOptions(CLI::App &command, RunOptions &options) {
  command.formatter_fn([](const CLI::App *, std::string, CLI::AppFormatMode) {
    return std::string(kHelp);
  });
  BenchOptions &it = options.benchOptions;
  command.add_option("BUNDLE", options.bundle)->required();
  command.add_option("-m,--model", options.model);
  command.add_option("--synthetic", options.synthetic);
  command.add_option("--prefill", it.prefill)
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  command.add_option("--depths", it.depths)->delimiter(',');
  command.add_option("--tokens", it.tokens)->check(CLI::Range(1, 1 << 20));
  command.add_flag("--ops", it.ops);
  command.add_flag("--json", options.json);
  addDeviceOptions(command, options);
}

std::string checkBenchOptions(const RunOptions &options) {
  if (options.model.empty() != options.synthetic.has_value())
    return "bench needs -m MODEL.gguf or --synthetic=SEED";
  return {};
}

namespace {

/// What all tests share.
struct BenchSubject {
  const Session &session;
  std::string device, target;
  double readRate; ///< bytes a second; 0: unknown
};

double rateOf(const BenchTest &test) {
  return static_cast<double>(test.weightBytes) / test.seconds;
}

void printHead(const BenchSubject &subject) {
  fmt::print("{} on {}, weights {}", subject.session.manifest().modelName,
             subject.device, formatBytes(subject.session.memory().weights));
  if (subject.readRate > 0)
    fmt::print(", reads {:.1f} GB/s", subject.readRate / 1e9);
  fmt::print("\n\n{:<20} {:>9} {:>9} {:>6} {:>9} {:>8} {:>8}\n", "test",
             "tok/s", "ms", "steps", "weights", "GB/s", "of read");
}

void printTest(const BenchSubject &subject, const BenchTest &test) {
  std::string line = fmt::format(
      "{:<20} {:>9.2f} {:>9.3f} {:>6}", test.name(), test.tokens / test.seconds,
      test.seconds * 1e3,
      test.decodeSteps > 0 ? fmt::format("{:.2f}", test.decodeSteps) : "");
  if (test.weightBytes)
    line += fmt::format(" {:>9} {:>8.1f}", formatBytes(test.weightBytes),
                        rateOf(test) / 1e9);
  if (test.weightBytes && subject.readRate > 0)
    line += fmt::format(" {:>6.1f} %", 100 * rateOf(test) / subject.readRate);
  fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  std::fflush(stdout);
}

void printRest(const Bench &bench) {
  for (const Bench::OpsAt &at : bench.ops()) {
    fmt::print(
        "\n{:<34} {:>8} {:>9} {:>9} {:>9}\n",
        fmt::format("{}, by op and grid",
                    BenchTest{at.kind, at.tokens, at.depth, 0, 0, 0, 0}.name()),
        "launches", "us each", "ms in all", "GB/s");
    for (const BenchOp &op : at.ops)
      fmt::print("{:<34} {:>8} {:>9.1f} {:>9.3f} {:>9.1f}\n",
                 fmt::format("{} {}x{}", op.label, op.grid, op.block),
                 op.launches, op.seconds / op.launches * 1e6, op.seconds * 1e3,
                 static_cast<double>(op.weightBytes) / op.seconds / 1e9);
  }
  if (!bench.leftOut().empty())
    fmt::print("\n");
  for (const BenchLeftOut &it : bench.leftOut())
    fmt::print("left out: {}: {}\n", it.test, it.reason);
}

using Json = nlohmann::ordered_json;

const char *kindName(BenchTest::Kind kind) {
  constexpr const char *kNames[] = {"prefill", "verify", "decode"};
  return kNames[static_cast<size_t>(kind)];
}

Json toJson(const BenchSubject &subject, const BenchTest &test) {
  Json json = {{"test", kindName(test.kind)},
               {"tokens", test.tokens},
               {"depth", test.depth},
               {"runs", test.runs},
               {"seconds", test.seconds},
               {"tokens_per_second", test.tokens / test.seconds}};
  if (test.kind == BenchTest::Kind::verify)
    json["decode_steps"] = test.decodeSteps;
  if (test.kind == BenchTest::Kind::decode) {
    json["bytes_per_second"] = rateOf(test);
    if (subject.readRate > 0)
      json["share_of_read"] = rateOf(test) / subject.readRate;
  }
  return json;
}

void printJson(const BenchSubject &subject, const Bench &bench,
               const std::vector<BenchTest> &tests) {
  const Session &session = subject.session;
  Json json = {{"model", session.manifest().modelName},
               {"device", subject.device},
               {"target", subject.target},
               {"context", session.context()},
               {"weights_bytes", session.memory().weights},
               {"load_seconds", session.loadStats().seconds},
               {"read_bytes_per_second", subject.readRate},
               {"weight_bytes_per_token", session.weightBytesPerToken()},
               {"tests", Json::array()},
               {"ops", Json::array()},
               {"left_out", Json::array()}};
  for (const BenchTest &test : tests)
    json["tests"].push_back(toJson(subject, test));
  for (const Bench::OpsAt &at : bench.ops())
    for (const BenchOp &op : at.ops)
      json["ops"].push_back({{"test", kindName(at.kind)},
                             {"tokens", at.tokens},
                             {"depth", at.depth},
                             {"op", op.label},
                             {"grid", op.grid},
                             {"block", op.block},
                             {"launches", op.launches},
                             {"seconds", op.seconds},
                             {"weight_bytes", op.weightBytes}});
  for (const BenchLeftOut &it : bench.leftOut())
    json["left_out"].push_back({{"test", it.test}, {"reason", it.reason}});
  fmt::print("{}\n", json.dump(2));
}

} // namespace

Status runBenchCommand(const RunOptions &options) {
  DS4_ASSIGN(Bundle bundle, openBundle(options.bundle));
  DS4_ASSIGN(std::unique_ptr<Device> device,
             createDevice(options.device, options.threads));
  const std::string target(device->target());
  DS4_ASSIGN(const double readRate, readBandwidth(*device, options.threads));
  std::unique_ptr<Session> session;
  if (options.synthetic) {
    DS4_ASSIGN(session, openSession(std::move(bundle),
                                    SyntheticWeights(*options.synthetic),
                                    std::move(device), options));
  } else {
    DS4_ASSIGN(const Gguf file, Gguf::open(options.model));
    DS4_ASSIGN(session, openSession(std::move(bundle), file, std::move(device),
                                    options));
  }
  session->hooks.cancelled = interrupted;
  const BenchSubject subject{*session, options.device, target, readRate};
  std::vector<BenchTest> tests;
  Bench bench(*session, options.benchOptions, [&](const BenchTest &test) {
    tests.push_back(test);
    if (!options.json)
      printTest(subject, test);
  });
  if (!options.json)
    printHead(subject);
  DS4_TRY(bench.run());
  if (options.json)
    printJson(subject, bench, tests);
  else
    printRest(bench);
  return Status::ok();
}

} // namespace ds4
