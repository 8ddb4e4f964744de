// KernelBuild.cpp - texts are flattened and looked up by the same threads that
// compile what is missing.
#include "runtime/KernelBuild.h"

#include "runtime/ParallelWork.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>

namespace ds4 {

namespace fs = std::filesystem;

/// The name in `#include "NAME"`, or nothing.
static std::optional<std::string> includedName(std::string_view line) {
  constexpr std::string_view kStart = "#include \"";
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  if (!line.starts_with(kStart))
    return std::nullopt;
  line.remove_prefix(kStart.size());
  const size_t end = line.find('"');
  if (end == line.npos)
    return std::nullopt;
  return std::string(line.substr(0, end));
}

static Status append(const fs::path &root, const fs::path &file, unsigned depth,
                     std::string &out) {
  constexpr unsigned kDeepest = 16;
  if (depth > kDeepest)
    return invalidInput(fmt::format("{} includes itself: recompile the bundle "
                                    "with ds4c",
                                    file.string()));
  std::ifstream stream(root / file);
  if (!stream)
    return ioError(fmt::format("cannot read {}: the bundle is damaged, compile "
                               "it again with ds4c",
                               (root / file).string()));
  out += fmt::format("#line 1 \"{}\"\n", file.generic_string());
  unsigned number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    const std::optional<std::string> name = includedName(line);
    if (!name) {
      out += line + "\n";
      continue;
    }
    fs::path included = file.parent_path() / *name;
    std::error_code code;
    if (!fs::exists(root / included, code))
      included = *name;
    DS4_TRY(append(root, included, depth + 1, out));
    out += fmt::format("#line {} \"{}\"\n", number + 1, file.generic_string());
  }
  return Status::ok();
}

Result<std::string> flattenUnit(const fs::path &root, const fs::path &file) {
  std::string text;
  DS4_TRY(append(root, file, 0, text));
  return text;
}

/// The one file of a kernel's cache entry.
static constexpr const char *kObjectName = "object";

Result<KernelCode> compileCached(const std::string &symbol,
                                 const std::string &name,
                                 const std::string &text,
                                 const RtcCompiler &compiler,
                                 const Cache &cache) {
  const std::string key =
      contentHash(fmt::format("kernel\n{}\n{}", compiler.id(), text));
  if (std::optional<FileSet> cached = cache.load(key))
    if (auto it = cached->find(kObjectName); it != cached->end())
      return KernelCode{symbol, std::move(it->second)};
  const auto begin = std::chrono::steady_clock::now();
  DS4_ASSIGN(std::string code, compiler.compile(name, text));
  const std::chrono::duration<double> passed =
      std::chrono::steady_clock::now() - begin;
  cache.store(key, {{kObjectName, code}});
  return KernelCode{symbol, std::move(code), passed.count()};
}

bool isPrecompiled(const Manifest &manifest, std::string_view target) {
  return std::ranges::any_of(manifest.objects, [&](const ObjectDesc &object) {
    return object.target == target && !object.kernel.empty();
  });
}

Result<std::vector<KernelCode>> readKernels(const Bundle &bundle,
                                            std::string_view target) {
  std::vector<KernelCode> kernels;
  for (const ObjectDesc &object : bundle.manifest.objects) {
    if (object.target != target || object.kernel.empty())
      continue;
    std::ifstream file(bundle.path / object.file, std::ios::binary);
    std::ostringstream code;
    code << file.rdbuf();
    if (!file)
      return ioError(fmt::format("cannot read {}: the bundle is damaged, "
                                 "compile it again with ds4c",
                                 (bundle.path / object.file).string()));
    kernels.push_back({object.kernel, std::move(code).str()});
  }
  return kernels;
}

static Result<KernelCode> buildKernel(const Bundle &bundle,
                                      const UnitDesc &unit,
                                      const RtcCompiler &compiler,
                                      const Cache &cache) {
  const fs::path file = bundle.path / unit.file;
  DS4_ASSIGN(const std::string text,
             flattenUnit(file.parent_path(), file.filename()));
  return compileCached(unit.name, file.filename().string(), text, compiler,
                       cache);
}

Result<std::vector<KernelCode>>
buildKernels(const Bundle &bundle, const RtcCompiler &compiler,
             const Cache &cache, const KernelBuildOptions &options) {
  const std::vector<UnitDesc> &units = bundle.manifest.units;
  std::vector<KernelCode> kernels(units.size());
  auto build = [&](size_t i) {
    Result<KernelCode> kernel = buildKernel(bundle, units[i], compiler, cache);
    if (!kernel)
      return Status(kernel.error());
    kernels[i] = std::move(*kernel);
    return Status::ok();
  };
  DS4_TRY(
      workInParallel(options.threads, units.size(), build, options.progress));
  return kernels;
}

} // namespace ds4
