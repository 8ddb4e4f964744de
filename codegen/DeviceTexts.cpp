// DeviceTexts.cpp - look-up in the embedded table and the include scan. The
// scan reads `#include "..."` at the start of a line only and ignores
// conditions: a file too many in a hash is harmless, one too few is not.
#include "codegen/DeviceTexts.h"

#include "runtime/BundleFormat.h"

#include <algorithm>

extern const ds4::EmbeddedText kDeviceTexts[];
extern const unsigned kDeviceTextsCount;

namespace ds4::codegen {

std::span<const EmbeddedText> deviceTexts() {
  return {kDeviceTexts, kDeviceTextsCount};
}

const EmbeddedText *findDeviceText(std::string_view path) {
  std::span<const EmbeddedText> all = deviceTexts();
  auto it = std::ranges::lower_bound(all, path, {}, &EmbeddedText::path);
  return it != all.end() && it->path == path ? &*it : nullptr;
}

/// The name in an `#include "NAME"` line, or empty.
static std::string_view includedName(std::string_view line) {
  static constexpr std::string_view kDirective = "#include \"";
  if (!line.starts_with(kDirective))
    return {};
  line.remove_prefix(kDirective.size());
  return line.substr(0, line.find('"'));
}

static const EmbeddedText *resolve(std::string_view name,
                                   std::string_view folder) {
  if (!folder.empty())
    if (const EmbeddedText *beside =
            findDeviceText(std::string(folder) + std::string(name)))
      return beside;
  return findDeviceText(name);
}

static void scan(std::string_view text, std::string_view folder,
                 std::vector<const EmbeddedText *> &found) {
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view name = includedName(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (name.empty())
      continue;
    const EmbeddedText *file = resolve(name, folder);
    if (!file || std::ranges::find(found, file) != found.end())
      continue;
    found.push_back(file);
    size_t slash = file->path.rfind('/');
    scan(file->text,
         slash == std::string_view::npos ? "" : file->path.substr(0, slash + 1),
         found);
  }
}

std::vector<const EmbeddedText *> includedTexts(std::string_view text) {
  std::vector<const EmbeddedText *> found;
  scan(text, "", found);
  return found;
}

const std::string &deviceTextsHash() {
  static const std::string hash = [] {
    std::string all;
    for (const EmbeddedText &file : deviceTexts()) {
      all.append(file.path).push_back('\0');
      all.append(file.text).push_back('\0');
    }
    return contentHash(all);
  }();
  return hash;
}

} // namespace ds4::codegen
