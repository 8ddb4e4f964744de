// EvalCommand.h - `ds4run eval`: the quality report of a model over a text,
// alone or against another model or a reference dump.
#ifndef DS4_TOOLS_EVALCOMMAND_H
#define DS4_TOOLS_EVALCOMMAND_H

#include "runtime/Result.h"
#include "tools/RunOptions.h"

namespace CLI {
class App;
}

namespace ds4 {

/// Adds the options of the command to `command`; parsing fills `options`,
/// which must live as long.
void addEvalOptions(CLI::App &command, RunOptions &options);

/// What is wrong with the options together; empty: nothing.
std::string checkEvalOptions(const RunOptions &options);

/// Prints the report to standard output.
Status runEvalCommand(const RunOptions &options);

} // namespace ds4

#endif // DS4_TOOLS_EVALCOMMAND_H
