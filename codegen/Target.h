// Target.h - what codegen knows of a target: one table row each.
#ifndef DS4_CODEGEN_TARGET_H
#define DS4_CODEGEN_TARGET_H

#include <span>
#include <string>
#include <string_view>

namespace ds4::codegen {

/// Facts of a target.
struct Target {
  std::string_view name; ///< as in bundles: "host"
  /// For clang and LLVM; empty: only the runtime compiles units for it
  /// (runtime/KernelBuild.h).
  std::string_view triple;
  std::string_view cpu;      ///< -target-cpu; for host also what it needs
  std::string_view language; ///< clang's -x
  std::string_view linkMode; ///< lld's -m
  unsigned waveSize;         ///< lanes of a wave
  unsigned sharedBytes;      ///< most LDS of a block
  unsigned tileValueBytes;   ///< of a value in tiles (ops/tile_mma.h)

  bool isHost() const { return name == "host"; }
  /// Whether UnitCompiler.h knows it.
  bool canCompile() const { return !triple.empty(); }
};

/// All targets, ascending by name.
std::span<const Target> targets();

/// The target of this name, or null.
const Target *findTarget(std::string_view name);

/// Names of all targets, comma separated, for messages.
std::string targetNames();

} // namespace ds4::codegen

#endif // DS4_CODEGEN_TARGET_H
