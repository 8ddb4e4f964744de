// Compilation.h - what one call of ds4c does: a model file or a dumped stage
// in, a later stage or a bundle out.
#ifndef DS4_TOOLS_COMPILATION_H
#define DS4_TOOLS_COMPILATION_H

#include "models/Profile.h"
#include "runtime/Result.h"
#include "runtime/WeightFormats.h"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ds4 {

/// Forms of the model on its way, in order; the first three are MLIR text that
/// ds4c can resume from.
enum class Stage { model, fused, planned, hip, plan, table, bundle };

std::optional<Stage> stageFromName(std::string_view name);

struct CompileRequest {
  std::filesystem::path input;
  /// Instead of `input`: a built-in shape or a shape file (models/Shape.h).
  std::string shape;
  /// Stage of the input; nothing: a GGUF file or a shape.
  std::optional<Stage> from;
  Stage emit = Stage::bundle;
  /// Where the result goes; empty: standard output (not for a bundle).
  std::filesystem::path output;
  /// For a GGUF file or a shape. Its target is what is compiled for.
  Profile profile;
  /// For a dumped stage: overrides the target that it names.
  std::optional<std::string> target;
  /// Directory for every stage, numbered; empty: none.
  std::filesystem::path dump;
  /// For a GGUF file or a shape: what its tensors of type 107 mean.
  Fp2Reading fp2 = Fp2Reading::dual;
  /// Compile for a GPU now, not when ds4run loads the bundle.
  bool precompile = false;
  bool useCache = true;
  /// Progress on standard error.
  bool showProgress = false;
};

/// Errors are one sentence each; diagnostics of passes name the op's place.
Status compile(const CompileRequest &request);

} // namespace ds4

#endif // DS4_TOOLS_COMPILATION_H
