// BundleWriter.cpp - files are written and flushed in a directory beside the
// target name, which then changes places with what was there (renameat2), so
// that no reader ever finds half a bundle.
#include "codegen/BundleWriter.h"

#include "codegen/DeviceTexts.h"
#include "codegen/UnitCompiler.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>
#include <unistd.h>

namespace ds4::codegen {

namespace fs = std::filesystem;

std::string toolVersion() { return "ds4c " DS4_VERSION; }

std::string objectKey(std::span<const Unit> units, const Target &target) {
  std::string all = fmt::format("{}\n{}\n{}\n", target.name, compilerId(target),
                                deviceTextsHash());
  for (const Unit &unit : units)
    all += fmt::format("{}\n{}\n{}", unit.symbol, unit.text.size(), unit.text);
  return contentHash(all);
}

FileSet bundleFiles(Manifest manifest, const EmittedPlan &plan,
                    const Target &target, const std::vector<std::string> &code,
                    const std::string &ir) {
  FileSet files;
  files["plan.json"] = planToJson(plan.plan);
  files["ir/planned.mlir"] = ir;

  std::set<const EmbeddedText *> used;
  for (const Unit &unit : plan.units) {
    std::string file = fmt::format("kernels/{}.hip", unit.symbol);
    manifest.units.push_back({unit.symbol, file, contentHash(unit.text)});
    files[file] = unit.text;
    for (const EmbeddedText *text : includedTexts(unit.text))
      used.insert(text);
  }
  for (const EmbeddedText *text : used)
    files[fmt::format("kernels/{}", text->path)] = text->text;

  for (size_t i = 0; i < code.size(); ++i) {
    const std::string kernel = target.isHost() ? "" : plan.units[i].symbol;
    const std::string file =
        target.isHost() ? fmt::format("objects/{}/kernels.so", target.name)
                        : fmt::format("objects/{}/{}.elf", target.name, kernel);
    const std::span<const Unit> units = plan.units;
    manifest.objects.push_back(
        {std::string(target.name), kernel, file,
         objectKey(target.isHost() ? units : units.subspan(i, 1), target),
         contentHash(code[i]), std::string(target.isHost() ? target.cpu : "")});
    files[file] = code[i];
  }
  manifest.tool = toolVersion();
  manifest.planHash = contentHash(files["plan.json"]);
  files["manifest.json"] = manifestToJson(manifest);
  return files;
}

static Error systemError(std::string_view action, const fs::path &path) {
  return ioError(
      fmt::format("cannot {} {}: {}", action, path.string(), strerror(errno)));
}

/// Flushes a file or directory to the disk.
static Status flush(const fs::path &path) {
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return systemError("open", path);
  int code = fsync(file);
  close(file);
  if (code != 0)
    return systemError("flush", path);
  return Status::ok();
}

/// Flushes all, many at a time: a journal commits what waits together once, so
/// 100 files take 0.1 s instead of 0.5 s (ext4).
static Status flushAll(const std::vector<fs::path> &paths) {
  constexpr size_t kThreads = 16;
  std::array<Status, kThreads> results;
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      for (size_t i = thread; i < paths.size() && results[thread];
           i += kThreads)
        results[thread] = flush(paths[i]);
    });
  for (std::thread &thread : threads)
    thread.join();
  for (Status &result : results)
    DS4_TRY(std::move(result));
  return Status::ok();
}

static Status writeFiles(const fs::path &folder, const FileSet &files) {
  std::set<fs::path> folders = {folder};
  for (const auto &[name, bytes] : files) {
    fs::path path = folder / name;
    for (fs::path at = path.parent_path(); at != folder; at = at.parent_path())
      folders.insert(at);
    std::error_code code;
    fs::create_directories(path.parent_path(), code);
    std::ofstream file(path, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (!file)
      return systemError("write", path);
  }
  std::vector<fs::path> paths(folders.begin(), folders.end());
  for (const auto &[name, bytes] : files)
    paths.push_back(folder / name);
  DS4_TRY(flushAll(paths));
  return Status::ok();
}

/// Whether the bundle at `path` consists of exactly these files.
static bool isUpToDate(const fs::path &path, const FileSet &files) {
  size_t count = 0;
  std::error_code code;
  for (const auto &entry : fs::recursive_directory_iterator(path, code))
    count += entry.is_regular_file(code);
  if (code || count != files.size())
    return false;
  for (const auto &[name, bytes] : files) {
    std::ifstream file(path / name, std::ios::binary);
    std::ostringstream present;
    present << file.rdbuf();
    if (!file || present.view() != bytes)
      return false;
  }
  return true;
}

/// Moves `draft` to `path`; what was at `path` is removed afterwards.
static Status install(const fs::path &draft, const fs::path &path) {
  if (rename(draft.c_str(), path.c_str()) == 0)
    return Status::ok();
  // rename() replaces empty directories only: change places with a full one.
  if (renameat2(AT_FDCWD, draft.c_str(), AT_FDCWD, path.c_str(),
                RENAME_EXCHANGE) != 0) {
    // File systems without exchange: a moment in which neither is there.
    fs::path old = draft;
    old += ".old";
    if (rename(path.c_str(), old.c_str()) != 0 ||
        rename(draft.c_str(), path.c_str()) != 0)
      return systemError("replace", path);
    fs::rename(old, draft);
  }
  std::error_code code;
  fs::remove_all(draft, code);
  return Status::ok();
}

Status writeBundle(const fs::path &path, const FileSet &files) {
  // "out.ds4b/" means "out.ds4b".
  fs::path target = path.has_filename() ? path : path.parent_path();
  fs::path folder = target.has_parent_path() ? target.parent_path() : ".";
  std::error_code code;
  if (fs::exists(target, code) && !fs::exists(target / "manifest.json", code) &&
      !(fs::is_directory(target, code) && fs::is_empty(target, code)))
    return invalidInput(fmt::format("{} exists and is not a bundle: choose "
                                    "another name or remove it",
                                    target.string()));
  if (isUpToDate(target, files))
    return Status::ok();

  std::string draft =
      fmt::format("{}.draft-XXXXXX", (folder / target.filename()).string());
  if (!mkdtemp(draft.data()))
    return systemError("make a directory beside", target);
  // mkdtemp's 0700 is for secrets; a bundle is as readable as its folder.
  fs::permissions(draft, fs::perms(0755), code);
  Status status = writeFiles(draft, files);
  if (status)
    status = install(draft, target);
  if (!status) {
    fs::remove_all(draft, code);
    return status;
  }
  return flush(folder);
}

} // namespace ds4::codegen
