// DynamicLibrary.cpp - dlopen and dlsym; builds by the notes of linkers.
#include "runtime/DynamicLibrary.h"

#include "runtime/BundleFormat.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

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

/// The GNU build id of a loaded library as raw bytes; empty if it has none.
static std::string_view buildId(const dl_phdr_info &library) {
  for (const ElfW(Phdr) & header :
       std::span(library.dlpi_phdr, library.dlpi_phnum)) {
    if (header.p_type != PT_NOTE)
      continue;
    const char *at =
        reinterpret_cast<const char *>(library.dlpi_addr + header.p_vaddr);
    for (const char *end = at + header.p_memsz; at < end;) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof note);
      const char *name = at + sizeof note;
      const char *text = name + (note.n_namesz + 3) / 4 * 4;
      if (note.n_type == NT_GNU_BUILD_ID &&
          std::string_view(name, note.n_namesz) == std::string_view("GNU", 4))
        return {text, note.n_descsz};
      at = text + (note.n_descsz + 3) / 4 * 4;
    }
  }
  return {};
}

std::string loadedBuildsHash(std::span<const std::string_view> names) {
  struct Search {
    std::span<const std::string_view> names;
    std::vector<std::string> found;
  } search{names, {}};
  dl_iterate_phdr(
      [](dl_phdr_info *library, size_t, void *data) {
        Search &search = *static_cast<Search *>(data);
        const std::string file =
            std::filesystem::path(library->dlpi_name).filename();
        const auto begins = [&](std::string_view name) {
          return file.starts_with(name);
        };
        if (std::ranges::any_of(search.names, begins))
          search.found.push_back(file + std::string(buildId(*library)));
        return 0;
      },
      &search);
  if (search.found.empty())
    return {};
  std::ranges::sort(search.found); // the order of loading does not count
  std::string all;
  for (const std::string &library : search.found)
    all += library + '\n';
  return contentHash(all).substr(0, 8);
}

} // namespace ds4
