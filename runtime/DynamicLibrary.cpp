// DynamicLibrary.cpp - dlopen and dlsym.
#include "runtime/DynamicLibrary.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace ds4 {

Result<DynamicLibrary>
DynamicLibrary::open(std::span<const std::string> paths) {
  std::string reason;
  for (const std::string &path : paths) {
    if (void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))
      return DynamicLibrary(handle, path);
    if (reason.empty())
      reason = dlerror();
  }
  return Error{ErrorCode::deviceError, reason};
}

void *DynamicLibrary::find(const char *symbol) const {
  return dlsym(handle, symbol);
}

Status DynamicLibrary::missing(const char *symbol) const {
  return Error{ErrorCode::deviceError,
               fmt::format("{} has no function {}: install a newer version",
                           name, symbol)};
}

} // namespace ds4
