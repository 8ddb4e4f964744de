// DirectFile.h - large aligned reads of a file that bypass the page cache where
// the file system can (O_DIRECT) and use it where it cannot. Never mmap: maps
// of 100 GB files hang or get pinned on the machines we aim at.
#ifndef DS4_RUNTIME_DIRECTFILE_H
#define DS4_RUNTIME_DIRECTFILE_H

#include "runtime/Result.h"

#include <atomic>
#include <cstdint>
#include <string>

namespace ds4 {

/// An open file. Movable; several threads may read at once.
class DirectFile {
public:
  /// Offsets, sizes and buffers of read() are multiples of this.
  static constexpr uint64_t kAlignment = 4096;

  /// `allowDirect` = false never bypasses the page cache.
  static Result<DirectFile> open(const std::string &path,
                                 bool allowDirect = true);
  DirectFile(DirectFile &&other) noexcept;
  DirectFile &operator=(DirectFile &&other) = delete;
  ~DirectFile();

  /// Fills `buffer` from `offset`; returns the bytes read, fewer than `bytes`
  /// only at the end of the file.
  Result<uint64_t> read(void *buffer, uint64_t offset, uint64_t bytes);

  /// Whether reads bypass the page cache; may become false at the first read.
  bool direct() const { return bypassesCache; }

private:
  DirectFile(std::string path, int descriptor, bool direct)
      : path(std::move(path)), descriptor(descriptor), bypassesCache(direct) {}

  std::string path;
  int descriptor;
  std::atomic<bool> bypassesCache;
};

} // namespace ds4

#endif // DS4_RUNTIME_DIRECTFILE_H
