// Cache.cpp - keys/KEY lists paths and content hashes, blobs/HASH holds the
// bytes of one file. A blob checks itself by its name. Everything appears by
// rename, so readers see whole files only; a crash can leave a torn file, which
// its hash gives away.
#include "runtime/Cache.h"

#include "runtime/BundleFormat.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace ds4 {

namespace fs = std::filesystem;

Cache Cache::ofUser() {
  const char *xdg = std::getenv("XDG_CACHE_HOME");
  if (xdg && *xdg == '/') // relative values are invalid (XDG base directories)
    return Cache(fs::path(xdg) / "ds4c");
  const char *home = std::getenv("HOME");
  if (home && *home == '/')
    return Cache(fs::path(home) / ".cache" / "ds4c");
  return Cache(std::nullopt);
}

static std::optional<std::string> readFile(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  if (!file || (file.peek() != EOF && !(bytes << file.rdbuf())))
    return std::nullopt;
  return std::move(bytes).str();
}

static void discard(const fs::path &path) {
  std::error_code code;
  fs::remove(path, code);
}

/// Writes beside `path`, then renames: two writers of one file both win.
static bool writeFile(const fs::path &path, std::string_view bytes) {
  static std::atomic<unsigned> counter = 0;
  std::error_code code;
  fs::create_directories(path.parent_path(), code);
  fs::path draft = path;
  draft += fmt::format(".{}.{}", getpid(), counter++);
  std::ofstream file(draft, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file)
    fs::rename(draft, path, code);
  if (!file || code) {
    discard(draft);
    return false;
  }
  return true;
}

std::optional<FileSet> Cache::load(std::string_view key) const {
  if (!root)
    return std::nullopt;
  const fs::path entry = *root / "keys" / key;
  std::optional<std::string> text = readFile(entry);
  if (!text)
    return std::nullopt;
  nlohmann::json index =
      nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  FileSet files;
  bool isWhole = index.is_object() && !index.empty();
  for (auto it = index.begin(); isWhole && it != index.end(); ++it) {
    isWhole = it->is_string();
    if (!isWhole)
      break;
    const std::string hash = it->get<std::string>();
    const fs::path blob = *root / "blobs" / fs::path(hash).filename();
    std::optional<std::string> bytes = readFile(blob);
    isWhole = bytes && contentHash(*bytes) == hash;
    if (isWhole)
      files[it.key()] = std::move(*bytes);
    else
      discard(blob);
  }
  if (isWhole)
    return files;
  discard(entry);
  return std::nullopt;
}

void Cache::store(std::string_view key, const FileSet &files) const {
  if (!root)
    return;
  nlohmann::json index = nlohmann::json::object();
  for (const auto &[path, bytes] : files) {
    const std::string hash = contentHash(bytes);
    const fs::path blob = *root / "blobs" / hash;
    // An existing blob is written again unless it is whole.
    std::optional<std::string> present = readFile(blob);
    if ((!present || *present != bytes) && !writeFile(blob, bytes))
      return;
    index[path] = hash;
  }
  writeFile(*root / "keys" / key, index.dump());
}

} // namespace ds4
