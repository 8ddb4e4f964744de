// GgufStream.cpp - pread in windows of 1 MiB: a header of 5 MB costs a few
// system calls, and a header of 100 kB does not read weights.
#include "runtime/GgufStream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <xxhash.h>

namespace ds4 {

/// Bytes read from a file at a time.
static constexpr uint64_t kWindowBytes = uint64_t{1} << 20;

void GgufStream::FreeState::operator()(XXH3_state_s *state) const {
  XXH3_freeState(state);
}

GgufStream::GgufStream(std::span<const std::byte> memory)
    : window(memory), endOfInput(memory.size()), hash(XXH3_createState()) {
  XXH3_128bits_reset(hash.get());
}

GgufStream::GgufStream(int fd, uint64_t fileBytes)
    : endOfInput(fileBytes), fd(fd), buffer(std::min(kWindowBytes, fileBytes)),
      hash(XXH3_createState()) {
  XXH3_128bits_reset(hash.get());
}

GgufStream::GgufStream(GgufStream &&other) noexcept
    : window(other.window), windowStart(other.windowStart),
      inWindow(other.inWindow), hashed(other.hashed),
      endOfInput(other.endOfInput), fd(std::exchange(other.fd, -1)),
      buffer(std::move(other.buffer)), hash(std::move(other.hash)) {}

GgufStream::~GgufStream() {
  if (fd >= 0)
    ::close(fd);
}

Result<GgufStream> GgufStream::open(const std::filesystem::path &path) {
  auto refuse = [&](std::string_view reason) {
    return ioError(fmt::format("cannot open {}: {}", path.string(), reason));
  };
  // Non-blocking, so that a named pipe is refused instead of waited for.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return refuse(std::strerror(errno));
  struct stat facts{};
  const bool known = fstat(fd, &facts) == 0;
  if (!known || !S_ISREG(facts.st_mode)) {
    const Error error =
        refuse(known ? "it is not a regular file" : std::strerror(errno));
    ::close(fd);
    return error;
  }
  return GgufStream(fd, static_cast<uint64_t>(facts.st_size));
}

bool GgufStream::read(void *to, uint64_t bytes) {
  auto *out = static_cast<std::byte *>(to);
  while (bytes != 0) {
    if (inWindow == window.size() && !refill())
      return false;
    const uint64_t step = std::min<uint64_t>(bytes, window.size() - inWindow);
    if (out) {
      std::memcpy(out, window.data() + inWindow, step);
      out += step;
    }
    inWindow += step;
    bytes -= step;
  }
  return true;
}

std::string GgufStream::digest() {
  hashWindow();
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(hash.get()));
  return fmt::format("{:02x}", fmt::join(canonical.digest, ""));
}

void GgufStream::hashWindow() {
  XXH3_128bits_update(hash.get(), window.data() + hashed, inWindow - hashed);
  hashed = inWindow;
}

bool GgufStream::refill() {
  hashWindow();
  windowStart += window.size();
  window = {};
  inWindow = hashed = 0;
  ssize_t got;
  do
    got = pread(fd, buffer.data(), buffer.size(),
                static_cast<off_t>(windowStart));
  while (got < 0 && errno == EINTR);
  if (got <= 0) {
    if (got == 0)
      errno = 0;
    return false;
  }
  window = std::span(buffer).first(got);
  return true;
}

} // namespace ds4
