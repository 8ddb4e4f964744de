// Cache.h - the content-addressed store under $XDG_CACHE_HOME/ds4c/ (or
// ~/.cache/ds4c/): named sets of files. Several processes may use it at once.
#ifndef DS4_RUNTIME_CACHE_H
#define DS4_RUNTIME_CACHE_H

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ds4 {

/// Files by their path, '/' between folders.
using FileSet = std::map<std::string, std::string>;

/// A cache that cannot be read or written behaves as an empty one: it may
/// never be the reason that a compilation fails.
class Cache {
public:
  /// A cache in `root`; without one, nothing is found or kept.
  explicit Cache(std::optional<std::filesystem::path> root)
      : root(std::move(root)) {}

  /// The user's cache, if the environment names a home for it.
  static Cache ofUser();

  /// The files stored under `key` (a hash), or nothing. An entry whose bytes
  /// differ from what was stored is deleted.
  std::optional<FileSet> load(std::string_view key) const;
  void store(std::string_view key, const FileSet &files) const;

private:
  std::optional<std::filesystem::path> root;
};

} // namespace ds4

#endif // DS4_RUNTIME_CACHE_H
