// RunOptions.h - the command line of ds4run as a struct. What the options do is
// in Generate.cpp and ds4run.cpp.
#ifndef DS4_TOOLS_RUNOPTIONS_H
#define DS4_TOOLS_RUNOPTIONS_H

#include "runtime/GoldCheck.h"
#include "runtime/Sampler.h"
#include "tools/Bench.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ds4 {

/// --moments=full.
constexpr uint32_t kWholeRows = std::numeric_limits<uint32_t>::max();

struct RunOptions {
  std::string bundle, model;
  std::optional<std::string> prompt; ///< -p; "-" reads standard input
  std::optional<std::string> raw;    ///< --raw
  std::string ids;                   ///< --ids
  bool interactive = false;
  std::string system;
  bool think = false;
  uint32_t tokens = 256; ///< most to generate, a turn
  SamplerOptions sampling;
  std::string device = "host";
  unsigned threads = 0;
  uint32_t prefillChunk = 0;
  bool logitsHash = false;
  std::string traceFile;
  bool printBundle = false;
  std::string gold; ///< --check
  GoldOptions goldLimits;

  bool bench = false; ///< the command `bench`
  std::optional<uint64_t> synthetic;
  BenchOptions benchOptions;
  bool json = false; ///< bench: --json

  bool eval = false;                      ///< the command `eval`
  std::string text;                       ///< --text; "-" reads standard input
  uint32_t chunkTokens = 512, chunks = 0; ///< cutChunks
  std::string against, againstBundle, saveLogits;
  std::string imatrix;  ///< --collect-imatrix
  uint32_t moments = 0; ///< --moments: columns of a block; 0: none
  bool special = false; ///< --special: names of special tokens in --text count
};

/// Options that several commands share.
void addDeviceOptions(CLI::App &command, RunOptions &options);
void addChunkOptions(CLI::App &command, RunOptions &options);

/// What to do after the command line has been read.
struct RunCommand {
  /// Set: exit with this code (help, bad usage, a command that has run).
  std::optional<int> exitCode;
  RunOptions options;
};

/// Prints help to standard output or what is wrong to standard error; runs
/// `ds4run tokenize` and `ds4run inspect`.
RunCommand parseRunOptions(int argc, char **argv);

} // namespace ds4

#endif // DS4_TOOLS_RUNOPTIONS_H
