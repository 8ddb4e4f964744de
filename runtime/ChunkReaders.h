// ChunkReaders.h - threads that read the chunks of a file into a ring of
// buffers and work on them there.
#ifndef DS4_RUNTIME_CHUNKREADERS_H
#define DS4_RUNTIME_CHUNKREADERS_H

#include "runtime/Device.h"
#include "runtime/DirectFile.h"
#include "runtime/FileChunks.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace ds4 {

struct StagingDeleter {
  Device *device;
  void operator()(void *memory) const { device->freeStaging(memory); }
};
/// Memory of Device::allocateStaging().
using StagingMemory = std::unique_ptr<std::byte, StagingDeleter>;

class ChunkReaders {
public:
  /// A buffer and what is in it.
  struct Slot {
    StagingMemory data, packed; ///< `packed`: room for the work's results
    size_t chunk = 0;
    std::optional<Error> failure;
  };
  /// Called on the thread that has read slot.chunk into slot.data.
  using Work = std::function<Status(Slot &slot)>;

  /// A thread more buffers than threads; `dataBytes` and `packedBytes` each
  /// (0: none). `device`, `chunks` and `path`, which is for messages, must
  /// outlive this.
  static Result<std::unique_ptr<ChunkReaders>>
  start(DirectFile file, const std::string &path,
        std::span<const FileChunk> chunks, Device &device, unsigned threads,
        uint64_t dataBytes, uint64_t packedBytes, Work work);
  ~ChunkReaders();

  /// The next chunk that is done, in any order; null: all that were begun have
  /// been returned. Its buffers stay valid until release().
  Slot *next();
  void release(Slot *slot);
  /// Begins no further chunk. Called by itself after a failure; since chunks
  /// are begun in order, those before the first that fails are all returned.
  void stop();

  bool direct() const { return file.direct(); }

private:
  ChunkReaders(DirectFile file, const std::string &path,
               std::span<const FileChunk> chunks, Work work)
      : file(std::move(file)), path(path), chunks(chunks),
        work(std::move(work)) {}
  void run();
  Status read(Slot &slot);

  DirectFile file;
  const std::string &path;
  std::span<const FileChunk> chunks;
  Work work;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Slot> slots;
  std::vector<Slot *> free, done;
  size_t begun = 0, returned = 0; ///< chunks
  bool stopped = false;
  std::vector<std::thread> threads;
};

} // namespace ds4

#endif // DS4_RUNTIME_CHUNKREADERS_H
