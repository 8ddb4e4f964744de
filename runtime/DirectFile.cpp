// DirectFile.cpp - a file system may refuse O_DIRECT at open (tmpfs) or only
// at the first read; both fall back to ordinary reads.
#include "runtime/DirectFile.h"

#include <fmt/format.h>

#include <cassert>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace ds4 {

Result<DirectFile> DirectFile::open(const std::string &path, bool allowDirect) {
  int descriptor = -1;
  if (allowDirect)
    descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  if (descriptor >= 0)
    return DirectFile(path, descriptor, true);
  descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return ioError(
        fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_SEQUENTIAL);
  return DirectFile(path, descriptor, false);
}

DirectFile::DirectFile(DirectFile &&other) noexcept
    : path(std::move(other.path)), descriptor(other.descriptor),
      bypassesCache(other.bypassesCache.load()) {
  other.descriptor = -1;
}

DirectFile::~DirectFile() {
  if (descriptor >= 0)
    ::close(descriptor);
}

Result<uint64_t> DirectFile::read(void *buffer, uint64_t offset,
                                  uint64_t bytes) {
  assert(offset % kAlignment == 0 && bytes % kAlignment == 0);
  uint64_t done = 0;
  while (done < bytes) {
    ssize_t got = ::pread(descriptor, static_cast<char *>(buffer) + done,
                          bytes - done, static_cast<off_t>(offset + done));
    if (got == 0)
      break;
    if (got > 0) {
      done += static_cast<uint64_t>(got);
      // A direct read may continue only at an aligned place; elsewhere it has
      // met the end of the file.
      if (bypassesCache && done % kAlignment != 0)
        break;
      continue;
    }
    if (errno == EINTR)
      continue;
    if (errno == EINVAL && bypassesCache) {
      int flags = ::fcntl(descriptor, F_GETFL);
      if (flags >= 0 && ::fcntl(descriptor, F_SETFL, flags & ~O_DIRECT) == 0) {
        bypassesCache = false;
        continue;
      }
    }
    return ioError(fmt::format("cannot read {} bytes of {} at offset {}: {}",
                               bytes, path, offset + done,
                               std::strerror(errno)));
  }
  return done;
}

} // namespace ds4
