// ChunkReaders.cpp - one mutex guards the lists; reading and working happen
// outside of it.
#include "runtime/ChunkReaders.h"

#include <fmt/format.h>

namespace ds4 {

Result<std::unique_ptr<ChunkReaders>>
ChunkReaders::start(DirectFile file, const std::string &path,
                    std::span<const FileChunk> chunks, Device &device,
                    unsigned threads, uint64_t dataBytes, uint64_t packedBytes,
                    Work work) {
  std::unique_ptr<ChunkReaders> readers(
      new ChunkReaders(std::move(file), path, chunks, std::move(work)));
  const auto allocate = [&](uint64_t bytes) -> Result<StagingMemory> {
    StagingMemory memory(nullptr, {&device});
    if (bytes) {
      DS4_ASSIGN(void *staging, device.allocateStaging(bytes));
      memory.reset(static_cast<std::byte *>(staging));
    }
    return memory;
  };
  for (unsigned i = 0; i < threads + 1; ++i) {
    DS4_ASSIGN(StagingMemory data, allocate(dataBytes));
    DS4_ASSIGN(StagingMemory packed, allocate(packedBytes));
    readers->free.push_back(&readers->slots.emplace_back(
        Slot{std::move(data), std::move(packed), 0, std::nullopt}));
  }
  for (unsigned i = 0; i < threads; ++i)
    readers->threads.emplace_back([it = readers.get()] { it->run(); });
  return readers;
}

ChunkReaders::~ChunkReaders() {
  stop();
  for (std::thread &thread : threads)
    thread.join();
}

void ChunkReaders::stop() {
  std::lock_guard lock(mutex);
  stopped = true;
  changed.notify_all();
}

ChunkReaders::Slot *ChunkReaders::next() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] {
    const bool allBegun = stopped || begun == chunks.size();
    return !done.empty() || (allBegun && returned == begun);
  });
  if (done.empty())
    return nullptr;
  Slot *slot = done.back();
  done.pop_back();
  ++returned;
  return slot;
}

void ChunkReaders::release(Slot *slot) {
  std::lock_guard lock(mutex);
  free.push_back(slot);
  changed.notify_all();
}

Status ChunkReaders::read(Slot &slot) {
  const FileChunk &chunk = chunks[slot.chunk];
  DS4_ASSIGN(const uint64_t got,
             file.read(slot.data.get(), chunk.fileOffset, chunk.readBytes()));
  if (got >= chunk.bytes)
    return work(slot);
  return ioError(fmt::format(
      "{} ends at byte {} while tensors reach to {}: the file was cut since it "
      "was opened, download it again",
      path, chunk.fileOffset + got, chunk.fileOffset + chunk.bytes));
}

void ChunkReaders::run() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] {
      return stopped || begun == chunks.size() || !free.empty();
    });
    if (stopped || begun == chunks.size())
      return;
    Slot *slot = free.back();
    free.pop_back();
    slot->chunk = begun++;
    lock.unlock();
    Status status = read(*slot);
    lock.lock();
    if (!status) {
      slot->failure = status.error();
      stopped = true;
    }
    done.push_back(slot);
    changed.notify_all();
  }
}

} // namespace ds4
