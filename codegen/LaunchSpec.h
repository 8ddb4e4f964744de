// LaunchSpec.h - how the bodies of one or more ops make up a kernel launch, and
// the text of its unit. An op outside any ds4.launch is a launch of one body.
#ifndef DS4_CODEGEN_LAUNCHSPEC_H
#define DS4_CODEGEN_LAUNCHSPEC_H

#include "codegen/KernelTable.h"
#include "codegen/Unit.h"

#include <memory>
#include <string>
#include <vector>

namespace ds4::codegen {

/// A body that runs over all its blocks, and the bodies that its blocks run
/// afterwards, each on the tile that the block has written. With a spread
/// (KernelSpec::spread) those are the blocks that finish last of their group.
/// Behind them, of each `group` neighbouring blocks the one that finishes last
/// runs what needs the tiles of all of them.
struct LaunchHead {
  KernelSpec body;
  std::vector<KernelSpec> followers; ///< of the tile
  uint32_t group = 1;
  std::vector<KernelSpec> grouped{}; ///< of the tiles of a group

  uint32_t blocks() const {
    return body.spread ? body.spread->gridX : body.gridX;
  }
  /// Blocks that come to the tail.
  uint32_t arrivals() const { return body.gridX / group; }
  uint32_t tickets() const {
    return (body.spread ? body.gridX : 0) + (group > 1 ? arrivals() : 0);
  }
};

/// Heads side by side; then, in the block that finishes last, the tail's bodies
/// one after the other, or in several such blocks, each for rows of its own.
struct LaunchPart {
  std::vector<LaunchHead> heads;
  std::vector<KernelSpec> tail;

  uint32_t blocks() const;
  /// Blocks that come to the tail.
  uint32_t arrivals() const;
  /// How many of them may do rows of the tail, of `columns` in a row of the
  /// grid: 1 if rows depend on one another.
  uint32_t helpers(uint32_t columns) const;
  /// Tickets by which blocks find out which is the last of their group, and of
  /// all that come to the tail.
  uint32_t tickets() const;
};

struct LaunchSpec {
  std::string name;     ///< the op's mnemonic or the ds4.launch's name
  uint32_t threads = 0; ///< of a block
  uint32_t gridX = 0, gridY = 0;
  RowRatio ratio = 1;
  /// Rows of the domain that a row of the grid does.
  uint32_t columns = 1;
  /// Blocks of part 0 come first, then those of part 1, ....
  std::vector<LaunchPart> parts;
  /// Distinct pointer arguments; behind them come the tickets (u32 [tickets,
  /// gridY], zero), scratch memory, the status and the step.
  std::vector<mlir::Value> args;
  uint32_t tickets = 0;
  uint64_t scratchBytes = 0;
  /// Blocks wait for the launches before themselves, so that it may begin early
  /// (wait_for_previous() in ops/launch.h).
  bool dependent = false;
  uint32_t sharedBytes = 0;             ///< the most that a body takes
  uint32_t resident = 0;                ///< likewise (KernelSpec::resident)
  mlir::Operation *selection = nullptr; ///< the op that may report a NaN
  /// A launch of its own in front of this one, which leaves something in
  /// scratch memory; or none.
  std::shared_ptr<const LaunchSpec> before{};

  std::vector<const KernelSpec *> bodies() const;
};

/// How `op` is launched, or a diagnostic if it cannot be. What is to run before
/// is in LaunchSpec::before.
mlir::FailureOr<LaunchSpec> launchFor(mlir::Operation *op);

/// Text of the unit: headers, a namespace for each body with its constants,
/// decoder and device file, and the kernel that calls them. The kernel's symbol
/// is NAME_HASH with the first 8 hex digits of the hash of the text and of
/// every file that it includes.
Unit emitUnit(const LaunchSpec &spec);

} // namespace ds4::codegen

#endif // DS4_CODEGEN_LAUNCHSPEC_H
