// HostCompiler.h - emitted units to one shared object for the host target, with
// clang and lld inside this process: no compiler, linker or header of the
// machine is used and no child process is started.
#ifndef DS4_CODEGEN_HOSTCOMPILER_H
#define DS4_CODEGEN_HOSTCOMPILER_H

#include "codegen/Target.h"
#include "codegen/Unit.h"
#include "runtime/Cache.h"
#include "runtime/Result.h"

#include <cstddef>
#include <functional>
#include <span>
#include <string>

namespace ds4::codegen {

struct CompileOptions {
  /// Threads that compile units; 0: one a core.
  unsigned threads = 0;
  /// Where the objects of single units are kept, so that bundles share them.
  Cache cache = Cache(std::nullopt);
  /// Called after each unit, compiled or found in the cache, from any thread
  /// but one at a time.
  std::function<void(size_t done, size_t total)> progress{};
};

/// Compiles each unit alone (device files come from this binary) and links
/// them to a shared object, whose bytes are returned. The object exports each
/// unit's SYMBOL_entry; all else is local to its unit, so that
/// functions of one name may differ between units. Equal inputs give equal
/// bytes. Errors: text that clang refuses (with its messages, naming the unit),
/// a call to a function outside the unit.
Result<std::string> compileUnits(std::span<const Unit> units,
                                 const Target &target,
                                 const CompileOptions &options = {});

/// What compiled an object, for cache keys: versions and every option.
std::string compilerId(const Target &target);

} // namespace ds4::codegen

#endif // DS4_CODEGEN_HOSTCOMPILER_H
