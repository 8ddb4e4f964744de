// CompileCommand.h - `ds4run compile`: the units of a bundle as code for a
// chip, into the cache. Needs the chip's compiler, but no device.
#ifndef DS4_TOOLS_COMPILECOMMAND_H
#define DS4_TOOLS_COMPILECOMMAND_H

#include <string>

namespace CLI {
class App;
}

namespace ds4 {

struct CompileOptions {
  std::string bundle, arch;
  bool report = false;
  std::string save; ///< folder; empty: none
  unsigned threads = 0;
};

void addCompileOptions(CLI::App &command, CompileOptions &options);

/// Returns the exit code: 1 after an error, which it prints.
int runCompileCommand(const CompileOptions &options);

} // namespace ds4

#endif // DS4_TOOLS_COMPILECOMMAND_H
