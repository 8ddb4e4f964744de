// InspectCommand.h - `ds4run inspect`: what a model file holds, how its types
// are read, what a decoded token reads, and whether it fits into memory. Needs
// neither bundle nor device and reads no weights but samples of scale bytes.
#ifndef DS4_TOOLS_INSPECTCOMMAND_H
#define DS4_TOOLS_INSPECTCOMMAND_H

#include "runtime/Result.h"
#include "runtime/WeightFormats.h"

#include <cstdint>
#include <iosfwd>
#include <string>

namespace CLI {
class App;
}

namespace ds4 {

struct InspectOptions {
  std::string model;        ///< GGUF file
  uint64_t memory = 0;      ///< bytes to fit into; 0: what this machine has
  uint32_t context = 65536; ///< positions of the caches
  std::string kv = "fp8";   ///< storage of cached rows: fp8, f16, f32
  Fp2Reading fp2 = Fp2Reading::dual; ///< what tensors of type 107 mean
};

/// What was found out about a file.
struct Inspection {
  std::string text; ///< for people
  /// Whether weights and caches are at most InspectOptions::memory; true if
  /// that is 0.
  bool fits = true;
};

/// Errors: the file is no GGUF file that this build reads, or not a model that
/// ds4c compiles.
Result<Inspection> inspectModel(const InspectOptions &options);

/// Adds the options of the command to `command`; parsing fills `options`,
/// which must live as long.
void addInspectOptions(CLI::App &command, InspectOptions &options);

/// Prints the inspection to `out`, errors to `err`. Returns the exit code: 0
/// done, 1 failed or does not fit.
int runInspectCommand(const InspectOptions &options, std::ostream &out,
                      std::ostream &err);

} // namespace ds4

#endif // DS4_TOOLS_INSPECTCOMMAND_H
