// GgufStream.h - the bytes of a GGUF header in order, from memory or through a
// window on a file, hashed on the way. Knows nothing of what they mean; only
// GgufParser.cpp includes it.
#ifndef DS4_RUNTIME_GGUFSTREAM_H
#define DS4_RUNTIME_GGUFSTREAM_H

#include "runtime/Result.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct XXH3_state_s;

namespace ds4 {

class GgufStream {
public:
  /// Reads `memory`, which stays the caller's.
  explicit GgufStream(std::span<const std::byte> memory);
  /// Reads a regular file; left() is its size. Keeps it open.
  static Result<GgufStream> open(const std::filesystem::path &path);
  GgufStream(GgufStream &&other) noexcept;
  GgufStream &operator=(GgufStream &&) = delete;
  ~GgufStream();

  /// Offset of the next byte.
  uint64_t position() const { return windowStart + inWindow; }
  /// Bytes that can still be read.
  uint64_t left() const { return endOfInput - position(); }

  /// Copies `bytes` (at most left()) to `to`, or only hashes them if `to` is
  /// null. False: the file could not be read; `errno` says why, 0 standing for
  /// a file that became shorter.
  bool read(void *to, uint64_t bytes);

  /// XXH3-128 of everything up to position(), as 32 hex digits.
  std::string digest();

private:
  GgufStream(int fd, uint64_t fileBytes);
  void hashWindow();
  bool refill();

  struct FreeState {
    void operator()(XXH3_state_s *state) const;
  };

  std::span<const std::byte> window;
  uint64_t windowStart = 0; ///< offset of the window in the file
  uint64_t inWindow = 0;    ///< bytes of the window that were read
  uint64_t hashed = 0;      ///< bytes of the window that were hashed
  uint64_t endOfInput;
  int fd = -1;                   ///< owned; -1: memory
  std::vector<std::byte> buffer; ///< behind the window, for a file
  std::unique_ptr<XXH3_state_s, FreeState> hash;
};

} // namespace ds4

#endif // DS4_RUNTIME_GGUFSTREAM_H
