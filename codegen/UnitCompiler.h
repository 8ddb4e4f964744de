// UnitCompiler.h - emitted units to code, with clang and lld inside this
// process: no compiler, linker or header of the machine is used and no child
// process is started. For the host target all units become one shared object;
// for gfx1151 each becomes a code object, as hipRTC would make it.
#ifndef DS4_CODEGEN_UNITCOMPILER_H
#define DS4_CODEGEN_UNITCOMPILER_H

#include "codegen/Target.h"
#include "codegen/Unit.h"
#include "runtime/Cache.h"
#include "runtime/Result.h"

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

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
                                 const Target &host,
                                 const CompileOptions &options = {});

/// A code object for each unit, of a GPU, in order. Errors as above.
Result<std::vector<std::string>>
compileKernels(std::span<const Unit> units, const Target &gpu,
               const CompileOptions &options = {});

/// What compiled an object, for cache keys: versions and every option.
std::string compilerId(const Target &target);

} // namespace ds4::codegen

#endif // DS4_CODEGEN_UNITCOMPILER_H
