// KernelBuild.h - the emitted units of a bundle become code for the chip that
// is there, at load time, unless the cache has it from before.
#ifndef DS4_RUNTIME_KERNELBUILD_H
#define DS4_RUNTIME_KERNELBUILD_H

#include "runtime/BundleFormat.h"
#include "runtime/Cache.h"
#include "runtime/RtcCompiler.h"

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace ds4 {

/// A code object that defines one kernel.
struct KernelCode {
  std::string symbol;
  std::string code;
  double seconds = 0; ///< that compiling took; 0: it came from the cache
};

struct KernelBuildOptions {
  unsigned threads = 0; ///< that compile; 0: one a core
  /// Called after each unit, from any thread but one at a time.
  std::function<void(size_t done, size_t total)> progress{};
};

/// The file `file` of the folder `root` with what it includes in its place, so
/// that any compiler takes it without a file system; #line keeps messages
/// pointing at the files. Names are looked up beside the including file, then
/// in `root`. Errors: a file that is not there, an endless inclusion.
Result<std::string> flattenUnit(const std::filesystem::path &root,
                                const std::filesystem::path &file);

/// Code of `text`, which includes nothing and defines `symbol`, compiled unless
/// the cache has it: keys are hashes of the text and of RtcCompiler::id().
/// `name` stands for the text in messages. Errors: RtcCompiler::compile()'s.
Result<KernelCode> compileCached(const std::string &symbol,
                                 const std::string &name,
                                 const std::string &text,
                                 const RtcCompiler &compiler,
                                 const Cache &cache);

/// Whether the bundle has objects of single kernels for `target`.
bool isPrecompiled(const Manifest &manifest, std::string_view target);

/// Those objects, in the manifest's order. Errors: a file that cannot be read.
Result<std::vector<KernelCode>> readKernels(const Bundle &bundle,
                                            std::string_view target);

/// Code of every unit of the bundle, in the manifest's order, by
/// compileCached(). Errors: those of flattenUnit() and compileCached(), of the
/// first unit in order that fails.
Result<std::vector<KernelCode>> buildKernels(const Bundle &bundle,
                                             const RtcCompiler &compiler,
                                             const Cache &cache,
                                             const KernelBuildOptions &options);

} // namespace ds4

#endif // DS4_RUNTIME_KERNELBUILD_H
