// BenchCommand.h - `ds4run bench`: how fast a bundle runs on a device.
#ifndef DS4_TOOLS_BENCHCOMMAND_H
#define DS4_TOOLS_BENCHCOMMAND_H

#include "runtime/Result.h"
#include "tools/RunOptions.h"

namespace ds4 {

void addBenchOptions(CLI::App &command, RunOptions &options);

/// What is wrong with the options, or nothing.
std::string checkBenchOptions(const RunOptions &options);

/// Measures and prints a table.
Status runBenchCommand(const RunOptions &options);

} // namespace ds4

#endif // DS4_TOOLS_BENCHCOMMAND_H
