// SequenceState.h - the caches of one sequence as one block of device memory:
// where each is, which of its rows count at a position, and the bytes that a
// sequence is saved as. Session has the rules of when that is allowed.
#ifndef DS4_RUNTIME_SEQUENCESTATE_H
#define DS4_RUNTIME_SEQUENCESTATE_H

#include "runtime/BundleFormat.h"
#include "runtime/Device.h"
#include "runtime/Result.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ds4 {

/// Row numbers [first, end) of a state.
struct LiveRows {
  uint64_t first, end;

  bool operator==(const LiveRows &) const = default;
};

/// Rows of `state` that count after `position` tokens of a sequence of at most
/// `context`: those whose bytes follow from the tokens whatever was rolled back
/// before. That is every row of a state that holds the whole context; of a ring
/// the last of its rows, less those that tokens up to `rollback` beyond the
/// position may have replaced. Later steps read no others.
LiveRows liveRows(const StateDesc &state, uint32_t position, uint32_t context,
                  uint32_t rollback);

/// Version of the saved form; another one is refused.
inline constexpr uint32_t kSavedStateVersion = 1;

/// A saved sequence, little endian:
///
///   char[8]   "ds4state"
///   u32       kSavedStateVersion
///   u32       position: tokens in the sequence
///   u64       bytes of settings
///   u64       bytes of rows
///   u64[2]    XXH3-128 (low, high) of all that follows, seeded by the XXH3-64
///             of this header with zeros here
///   settings  lines "name = value": model, profile, weight formats, states
///   rows      live rows of each state, states by name, rows by number
///
/// Profile keys that change no result (target, prefill_chunk, logits,
/// trace_points, imatrix, disable_pass) are left out, so that a sequence may go
/// on in another bundle of the same meaning. math = fast binds it to its
/// target.
struct SavedStateHeader {
  char magic[8];
  uint32_t version;
  uint32_t position;
  uint64_t settingsBytes;
  uint64_t rowBytes;
  uint64_t checksum[2];
};

class SequenceState {
public:
  SequenceState(const Manifest &manifest, const Plan &plan);

  /// Bytes of the block that holds all states.
  uint64_t bytes() const { return blockBytes; }
  /// Tells where the block is: bytes() of zeroed device memory.
  void place(void *memory) { block = static_cast<std::byte *>(memory); }
  /// States by name, once placed.
  std::map<std::string, void *, std::less<>> pointers() const;

  /// The sequence after `position` tokens.
  Result<std::vector<std::byte>> save(Device &device, uint32_t position) const;
  /// Copies saved rows in; returns the position. Errors before anything is
  /// copied: damaged or truncated bytes, another version, another model or
  /// settings (names the first that differs). `where` names the source.
  Result<uint32_t> restore(Device &device, std::span<const std::byte> saved,
                           std::string_view where) const;

private:
  struct Placed {
    StateDesc desc;
    uint64_t offset; ///< in the block
  };
  /// Live bytes of `state` as at most two runs in the block.
  struct Run {
    uint64_t offset, bytes;
  };
  std::vector<Run> runsAt(uint32_t position) const;

  std::vector<Placed> states;
  std::string settings;
  uint32_t context, rollback;
  uint64_t blockBytes = 0;
  std::byte *block = nullptr;
};

/// Writes a saved sequence as a file that appears whole or not at all.
Status writeSavedState(const std::filesystem::path &path,
                       std::span<const std::byte> saved);
/// Reads the file; what is in it is for restore() to judge.
Result<std::vector<std::byte>>
readSavedState(const std::filesystem::path &path);

} // namespace ds4

#endif // DS4_RUNTIME_SEQUENCESTATE_H
