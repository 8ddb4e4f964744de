// Profile.h - what a bundle is specialised for: a TOML file of known keys, each
// of which has a command-line override of the same name.
#ifndef DS4_MODELS_PROFILE_H
#define DS4_MODELS_PROFILE_H

#include "runtime/Result.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace ds4 {

struct Profile {
  std::string target = "host"; ///< a row of codegen/Target.cpp
  int64_t context = 8192;      ///< most positions of a sequence
  int64_t experts = 0;         ///< routed experts a token; 0: as the model says
  int64_t prefillChunk = 512;  ///< token capacity of the prefill phase
  int64_t verifyWidth = 4;     ///< most tokens a rollback may undo at once
  bool simulate = true;        ///< FP8/FP4 round trips of the trained model
  std::string kv = "fp8";      ///< row storage: fp8 (index rows fp4), f16, f32
  std::string math = "portable"; ///< portable or fast (matrix_float allowed)
  std::string books = "float";   ///< learned books: float (exact) or int8
  std::string h32 = "refuse";    ///< rotated experts: refuse or sylvester
  std::string logits = "last";   ///< rows of a prefill step: last or all
  bool tracePoints = false;      ///< name activations for ds4run --check
  bool imatrix = false; ///< name inputs of linears for --collect-imatrix
  std::string disablePass = "none"; ///< optional passes, by commas

  /// Sets `key` from its text form. `where` names the source in errors: an
  /// unknown key (with the nearest known one) or a value out of its range.
  Status set(std::string_view key, std::string_view value,
             std::string_view where);

  /// Every key in text form.
  std::map<std::string, std::string> text() const;

  /// Errors of combinations that no test covers.
  Status check() const;
};

/// A key for help texts: name, accepted values, meaning.
struct ProfileKey {
  std::string_view name;
  std::string_view values;
  std::string_view help;
};
std::span<const ProfileKey> profileKeys();

/// A profile from TOML text; `where` names the file in errors.
Result<Profile> parseProfile(std::string_view toml, std::string_view where);

} // namespace ds4

#endif // DS4_MODELS_PROFILE_H
