// TemporaryFile.cpp - see TemporaryFile.h.
#include "runtime/TemporaryFile.h"

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace ds4 {

static Error failed(std::string_view what, const std::filesystem::path &where) {
  return ioError(fmt::format("cannot {} {}: {}", what, where.string(),
                             std::strerror(errno)));
}

TemporaryFile::TemporaryFile(std::filesystem::path target,
                             std::filesystem::path temporary, int fd)
    : target(std::move(target)), temporary(std::move(temporary)), fd(fd) {}

TemporaryFile::TemporaryFile(TemporaryFile &&other) noexcept
    : target(std::exchange(other.target, {})),
      temporary(std::exchange(other.temporary, {})),
      fd(std::exchange(other.fd, -1)) {}

TemporaryFile &TemporaryFile::operator=(TemporaryFile &&other) noexcept {
  std::swap(target, other.target);
  std::swap(temporary, other.temporary);
  std::swap(fd, other.fd);
  return *this;
}

TemporaryFile::~TemporaryFile() {
  if (fd >= 0)
    ::close(fd);
  if (!temporary.empty())
    ::unlink(temporary.c_str());
}

Result<TemporaryFile> TemporaryFile::create(std::filesystem::path target) {
  static std::atomic<unsigned> serial = 0;
  std::filesystem::path name = target;
  name += fmt::format(".{}.{}.tmp", ::getpid(), serial++);
  const int fd =
      ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0)
    return failed("create", name);
  return TemporaryFile(std::move(target), std::move(name), fd);
}

Status TemporaryFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0)
      return failed("write", temporary);
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
  return Status::ok();
}

Status TemporaryFile::writeAt(uint64_t offset,
                              std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t done =
        ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0)
      return failed("write", temporary);
    bytes = bytes.subspan(static_cast<size_t>(done));
    offset += static_cast<uint64_t>(done);
  }
  return Status::ok();
}

Status TemporaryFile::extend(uint64_t bytes) {
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0)
    return failed("extend", temporary);
  return Status::ok();
}

Status TemporaryFile::commit() {
  if (::fsync(fd) != 0)
    return failed("sync", temporary);
  const int closed = ::close(fd);
  fd = -1;
  if (closed != 0)
    return failed("close", temporary);
  if (std::rename(temporary.c_str(), target.c_str()) != 0)
    return failed("rename a temporary file to", target);
  temporary.clear();
  const std::filesystem::path folder =
      target.has_parent_path() ? target.parent_path() : ".";
  const int folderFd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (folderFd < 0)
    return failed("open", folder);
  const bool synced = ::fsync(folderFd) == 0;
  const Status status = synced ? Status::ok() : failed("sync", folder);
  ::close(folderFd);
  return status;
}

} // namespace ds4
