// DynamicLibrary.h - a library that may or may not be on the machine, opened
// when it is needed: drivers and their compilers.
#ifndef DS4_RUNTIME_DYNAMICLIBRARY_H
#define DS4_RUNTIME_DYNAMICLIBRARY_H

#include "runtime/Result.h"

#include <span>
#include <string>
#include <string_view>

namespace ds4 {

/// Stays loaded to the end of the process: drivers do not survive dlclose.
class DynamicLibrary {
public:
  /// The first of `paths` that can be opened. Error: none; the text has what
  /// the loader said of the first.
  static Result<DynamicLibrary> open(std::span<const std::string> paths);

  /// What was opened.
  const std::string &path() const { return name; }
  /// The function of this name, or null.
  void *find(const char *symbol) const;

  /// Sets `function`. Error: the library has none of this name.
  template <typename Function>
  Status bind(const char *symbol, Function *&function) const {
    function = reinterpret_cast<Function *>(find(symbol));
    return function ? Status::ok() : missing(symbol);
  }

private:
  DynamicLibrary(void *handle, std::string name)
      : handle(handle), name(std::move(name)) {}
  Status missing(const char *symbol) const;

  void *handle;
  std::string name;
};

/// A short hash of the builds of all loaded libraries whose file names begin
/// with one of `names` ("libnvrtc"), empty if none is loaded. Versions that
/// libraries tell of themselves may stay the same when their code changes.
std::string loadedBuildsHash(std::span<const std::string_view> names);

} // namespace ds4

#endif // DS4_RUNTIME_DYNAMICLIBRARY_H
