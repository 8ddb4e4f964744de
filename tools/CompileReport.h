// CompileReport.h - what the kernels of a bundle take of a chip, as a table.
#ifndef DS4_TOOLS_COMPILEREPORT_H
#define DS4_TOOLS_COMPILEREPORT_H

#include "runtime/KernelBuild.h"
#include "runtime/Result.h"

#include <span>
#include <string>
#include <string_view>

namespace ds4 {

/// A line a kernel, then a line a kind of kernel (what is before the hash in
/// its name) with the most that one of them takes and the fewest waves.
/// Registers are of a thread, shared memory is of a block, with what the plan's
/// launches add. Error: code that cannot be read.
Result<std::string> compileReport(std::span<const KernelCode> kernels,
                                  const Plan &plan, std::string_view chip);

} // namespace ds4

#endif // DS4_TOOLS_COMPILEREPORT_H
