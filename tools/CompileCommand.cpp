// CompileCommand.cpp - what opening a session does for its kernels, alone.
#include "tools/CompileCommand.h"

#include "runtime/KernelBuild.h"
#include "runtime/LanePacker.h"
#include "tools/CompileReport.h"
#include "tools/Terminal.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>

namespace ds4 {

static constexpr const char *kHelp =
    R"(ds4run compile: compile the kernels of a bundle ahead of their first use
usage: ds4run compile BUNDLE --for=CHIP [options]
  --for=CHIP         sm_90 (NVRTC), gfx1151 (hipRTC), ...
  --threads=N        that compile (default: one a core)
  --report           registers, memory, spills and waves of each kernel
  --save=FOLDER      also write the code objects there: KERNEL.elf
Code goes to the cache, where ds4run finds it. Needs no GPU. Of a bundle that
ds4c has precompiled for CHIP, nothing is compiled.
example: ds4run compile v4.ds4b --for=gfx1151 --report
)";

void addCompileOptions(CLI::App &command, CompileOptions &options) {
  command.formatter_fn([](const CLI::App *, std::string, CLI::AppFormatMode) {
    return std::string(kHelp);
  });
  command.add_option("BUNDLE", options.bundle)->required();
  command.add_option("--for", options.arch)->required();
  command.add_flag("--report", options.report);
  command.add_option("--save", options.save);
  command.add_option("--threads", options.threads)->check(CLI::Range(1, 1024));
}

static Status saveCode(const std::filesystem::path &folder,
                       std::span<const KernelCode> kernels) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  for (const KernelCode &kernel : kernels) {
    const std::filesystem::path path = folder / (kernel.symbol + ".elf");
    std::ofstream file(path, std::ios::binary);
    file << kernel.code;
    if (!file.flush())
      return ioError(fmt::format("cannot write {}: is there such a folder, and "
                                 "room?",
                                 path.string()));
  }
  return Status::ok();
}

/// Compiles what the cache does not have, and the loader's kernel, if it will
/// be needed; `how`: by what, and in which time.
static Result<std::vector<KernelCode>>
compileKernels(const Bundle &bundle, const CompileOptions &options,
               std::string &how) {
  DS4_ASSIGN(const std::unique_ptr<RtcCompiler> compiler,
             createRtcCompiler(options.arch));
  ProgressBar bar("compiling");
  KernelBuildOptions build;
  build.threads = options.threads;
  build.progress = [&](size_t done, size_t total) {
    bar.update(done, total, fmt::format("{}/{} kernels", done, total));
  };
  DS4_ASSIGN(std::vector<KernelCode> kernels,
             buildKernels(bundle, *compiler, Cache::ofUser(), build));
  if (std::ranges::count(bundle.plan.weights, WeightLayout::lanes,
                         &WeightDesc::layout)) {
    DS4_ASSIGN(kernels.emplace_back(),
               LanePacker::compile(*compiler, Cache::ofUser()));
  }
  how = fmt::format("by {} in {:.1f} s", compiler->id(), bar.seconds());
  return kernels;
}

static Status makeKernels(const CompileOptions &options) {
  DS4_ASSIGN(const Bundle bundle, openBundle(options.bundle));
  std::vector<KernelCode> kernels;
  std::string how = "precompiled by ds4c";
  if (isPrecompiled(bundle.manifest, options.arch)) {
    DS4_ASSIGN(kernels, readKernels(bundle, options.arch));
  } else {
    DS4_ASSIGN(kernels, compileKernels(bundle, options, how));
  }
  size_t bytes = 0;
  for (const KernelCode &kernel : kernels)
    bytes += kernel.code.size();
  fmt::print("{} kernels, {} bytes, {}\n", kernels.size(), bytes, how);
  if (!options.save.empty())
    DS4_TRY(saveCode(options.save, kernels));
  if (options.report) {
    DS4_ASSIGN(const std::string report,
               compileReport(kernels, bundle.plan, options.arch));
    fmt::print("{}", report);
  }
  return Status::ok();
}

int runCompileCommand(const CompileOptions &options) {
  const Status status = makeKernels(options);
  if (!status)
    fmt::print(stderr, "ds4run: {}\n", status.error().text);
  return status ? 0 : 1;
}

} // namespace ds4
