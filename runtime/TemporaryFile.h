// TemporaryFile.h - writes a file under a temporary name beside its target and
// renames it when it is complete: there is never half a file at the target.
#ifndef DS4_RUNTIME_TEMPORARYFILE_H
#define DS4_RUNTIME_TEMPORARYFILE_H

#include "runtime/Result.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace ds4 {

/// Removed unless it was committed. Errors name what failed and the file.
class TemporaryFile {
public:
  /// Creates the file. Its name is unique among processes.
  static Result<TemporaryFile> create(std::filesystem::path target);
  TemporaryFile(TemporaryFile &&other) noexcept;
  TemporaryFile &operator=(TemporaryFile &&other) noexcept;
  ~TemporaryFile();

  Status append(std::span<const std::byte> bytes);
  /// Writes at `offset`; several threads may at once, to different places.
  Status writeAt(uint64_t offset, std::span<const std::byte> bytes) const;
  /// Sets the size; what was not written is a hole that reads as zeros.
  Status extend(uint64_t bytes);
  /// Makes the bytes durable, then the name.
  Status commit();

private:
  TemporaryFile(std::filesystem::path target, std::filesystem::path temporary,
                int fd);

  std::filesystem::path target, temporary;
  int fd = -1;
};

} // namespace ds4

#endif // DS4_RUNTIME_TEMPORARYFILE_H
