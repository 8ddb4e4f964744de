// WeightLoader.cpp - the file is cut into aligned chunks that hold pieces of
// tensors; chunk i goes to staging buffer i mod n. A buffer is filled again
// only after its pieces have reached the device: a copy may still read it until
// then.
#include "runtime/WeightLoader.h"

#include "runtime/DirectFile.h"
#include "runtime/WeightCheck.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <chrono>
#include <memory>
#include <optional>
#include <semaphore>
#include <thread>
#include <vector>

namespace ds4 {
namespace {

/// Bytes of one tensor inside a chunk.
struct Piece {
  uint32_t target;
  uint64_t inChunk; ///< offset inside the chunk
  uint64_t bytes;
};

struct Chunk {
  uint64_t fileOffset = 0; ///< aligned
  uint64_t bytes = 0;      ///< from fileOffset to the end of the last piece
  std::vector<Piece> pieces;
};

/// A gap of more than this between tensors is skipped, not read.
constexpr uint64_t kLargestGap = 64 << 10;

/// Chunks of at most `chunkBytes`, ascending in the file; `order` lists
/// targets ascending by file offset.
std::vector<Chunk> cutChunks(std::span<const uint32_t> order,
                             std::span<const WeightTarget> targets,
                             std::span<const uint64_t> offsets,
                             uint64_t chunkBytes) {
  std::vector<Chunk> chunks;
  for (uint32_t target : order) {
    uint64_t at = offsets[target];
    uint64_t end = at + targets[target].desc->bytes;
    while (at < end) {
      bool fits = false;
      if (!chunks.empty()) {
        const Chunk &last = chunks.back();
        uint64_t lastEnd = last.fileOffset + last.bytes;
        fits = at < last.fileOffset + chunkBytes && at >= lastEnd &&
               at - lastEnd <= kLargestGap;
      }
      if (!fits) {
        chunks.emplace_back();
        chunks.back().fileOffset =
            at / DirectFile::kAlignment * DirectFile::kAlignment;
      }
      Chunk &chunk = chunks.back();
      uint64_t inChunk = at - chunk.fileOffset;
      uint64_t bytes = std::min(end - at, chunkBytes - inChunk);
      chunk.pieces.push_back({target, inChunk, bytes});
      chunk.bytes = inChunk + bytes;
      at += bytes;
    }
  }
  return chunks;
}

struct StagingDeleter {
  Device *device;
  void operator()(void *memory) const { device->freeStaging(memory); }
};

/// The reader thread and its staging buffers.
class ChunkReader {
public:
  ChunkReader(DirectFile file, std::span<const Chunk> chunks, Device &device,
              const LoadOptions &options, const std::string &path)
      : file(std::move(file)), chunks(chunks), path(path),
        emptyBuffers(options.chunks), fullBuffers(0) {
    assert(options.chunks >= 2 && options.chunks <= kMostBuffers &&
           options.chunkBytes % DirectFile::kAlignment == 0);
    slots.resize(options.chunks);
    for (Slot &slot : slots) {
      Result<void *> memory = device.allocateStaging(options.chunkBytes);
      if (memory)
        slot.buffer = {static_cast<std::byte *>(*memory), {&device}};
      else
        slot.failure = memory.error();
    }
    thread = std::thread([this] { run(); });
  }

  ~ChunkReader() {
    stop = true;
    emptyBuffers.release();
    thread.join();
  }

  /// Waits for the next chunk, in order; its bytes stay valid until
  /// release().
  Result<std::span<const std::byte>> next() {
    fullBuffers.acquire();
    const Slot &slot = slots[taken % slots.size()];
    if (slot.failure)
      return *slot.failure;
    return std::span<const std::byte>(slot.buffer.get(), chunks[taken].bytes);
  }

  void release() {
    ++taken;
    emptyBuffers.release();
  }

  bool direct() const { return file.direct(); }

private:
  static constexpr uint32_t kMostBuffers = 64;

  /// Owned by the reader between emptyBuffers.acquire() and
  /// fullBuffers.release(), by the caller otherwise.
  struct Slot {
    std::unique_ptr<std::byte, StagingDeleter> buffer{nullptr, {nullptr}};
    std::optional<Error> failure;
  };

  void run() {
    for (size_t i = 0; i < chunks.size(); ++i) {
      emptyBuffers.acquire();
      if (stop)
        return;
      const Chunk &chunk = chunks[i];
      uint64_t aligned = (chunk.bytes + DirectFile::kAlignment - 1) /
                         DirectFile::kAlignment * DirectFile::kAlignment;
      Slot &slot = slots[i % slots.size()];
      Result<uint64_t> got =
          slot.buffer ? file.read(slot.buffer.get(), chunk.fileOffset, aligned)
                      : *slot.failure;
      if (!got)
        slot.failure = got.error();
      else if (*got < chunk.bytes)
        slot.failure = ioError(fmt::format(
            "{} ends at byte {} while tensors reach to {}: the file was cut "
            "since it was opened, download it again",
            path, chunk.fileOffset + *got, chunk.fileOffset + chunk.bytes));
      bool failed = slot.failure.has_value();
      fullBuffers.release();
      if (failed)
        return;
    }
  }

  DirectFile file;
  std::span<const Chunk> chunks;
  const std::string &path;
  std::vector<Slot> slots;
  // One more than the buffers: the destructor releases once to wake run().
  std::counting_semaphore<kMostBuffers + 1> emptyBuffers;
  std::counting_semaphore<kMostBuffers + 1> fullBuffers;
  std::atomic<bool> stop = false;
  size_t taken = 0; ///< chunks released by the caller
  std::thread thread;
};

} // namespace

Status matchWeights(const Gguf &file, std::span<const WeightDesc> weights) {
  constexpr std::string_view kOther =
      "the bundle was compiled for another file: recompile it with ds4c";
  for (const WeightDesc &desc : weights) {
    const GgufTensor *tensor = file.findTensor(desc.name);
    if (!tensor)
      return invalidInput(fmt::format("{} has no tensor `{}`; {}", file.path(),
                                      desc.name, kOther));
    if (!weightFormatMayBe(desc.format, tensor->typeId))
      return invalidInput(fmt::format(
          "{}: tensor `{}` is {}, the bundle wants {}; {}", file.path(),
          desc.name, weightFormatInfo(tensor->format()).name,
          weightFormatInfo(desc.format).name, kOther));
    std::vector<int64_t> shape(tensor->dims.rbegin(), tensor->dims.rend());
    if (shape != desc.shape)
      return invalidInput(
          fmt::format("{}: tensor `{}` has shape [{}], the bundle wants [{}]; "
                      "{}",
                      file.path(), desc.name, fmt::join(shape, ", "),
                      fmt::join(desc.shape, ", "), kOther));
    if (tensor->bytes != desc.bytes)
      return invalidInput(fmt::format(
          "{}: tensor `{}` has {} bytes, the bundle wants {}; {}", file.path(),
          desc.name, tensor->bytes, desc.bytes, kOther));
  }
  return Status::ok();
}

namespace {

/// Brings one tensor to the device, fed in file order in pieces of any size.
class TensorLoad {
public:
  TensorLoad(const WeightTarget &target, uint64_t fileOffset)
      : target(target), check(*target.desc, fileOffset, target.modes) {
    const WeightDesc &desc = *target.desc;
    if (desc.layout == WeightLayout::lanes)
      packer.emplace(*LaneRow::of(desc.format, desc.shape.back()));
  }

  /// Bytes of packed rows that the next `bytes` bytes complete.
  uint64_t packedBytes(uint64_t bytes) const {
    return packer ? packer->packedBytes(bytes) : 0;
  }

  /// `packed` has room for packedBytes(). The device may read it and `bytes`
  /// until it is synchronised.
  Status feed(std::span<const std::byte> bytes, std::byte *packed,
              Device &device) {
    DS4_TRY(check.feed(bytes));
    fed += bytes.size();
    if (packer) {
      const uint64_t size = packer->packedBytes(bytes.size());
      packer->feed(bytes, packed);
      bytes = {packed, size};
    }
    if (!bytes.empty())
      DS4_TRY(device.copyIn(static_cast<std::byte *>(target.memory) + copied,
                            bytes.data(), bytes.size()));
    copied += bytes.size();
    return fed == target.desc->bytes ? check.finish() : Status::ok();
  }

private:
  const WeightTarget &target;
  WeightCheck check;
  std::optional<RowPacker> packer;
  uint64_t fed = 0, copied = 0;
};

} // namespace

Result<LoadStats> loadWeights(const Gguf &file, Device &device,
                              std::span<const WeightTarget> targets,
                              const LoadOptions &options) {
  auto begin = std::chrono::steady_clock::now();
  LoadStats stats;
  std::vector<uint64_t> offsets;
  std::vector<uint32_t> order;
  std::vector<TensorLoad> loads;
  uint64_t total = 0;
  for (const WeightTarget &target : targets) {
    const GgufTensor *tensor = file.findTensor(target.desc->name);
    assert(tensor && "matchWeights was not called");
    order.push_back(static_cast<uint32_t>(offsets.size()));
    offsets.push_back(tensor->fileOffset);
    loads.emplace_back(target, tensor->fileOffset);
    total += target.desc->bytes;
  }
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return offsets[a] < offsets[b]; });
  std::vector<Chunk> chunks =
      cutChunks(order, targets, offsets, options.chunkBytes);

  DS4_ASSIGN(DirectFile data,
             DirectFile::open(file.path(), options.allowDirect));
  ChunkReader reader(std::move(data), chunks, device, options, file.path());
  std::vector<std::byte> packed; // rows of one chunk
  for (const Chunk &chunk : chunks) {
    uint64_t packedBytes = 0;
    for (const Piece &piece : chunk.pieces)
      packedBytes += loads[piece.target].packedBytes(piece.bytes);
    packed.resize(packedBytes);
    std::byte *to = packed.data();
    DS4_ASSIGN(std::span<const std::byte> bytes, reader.next());
    for (const Piece &piece : chunk.pieces) {
      TensorLoad &load = loads[piece.target];
      const uint64_t size = load.packedBytes(piece.bytes);
      DS4_TRY(load.feed(bytes.subspan(piece.inChunk, piece.bytes), to, device));
      to += size;
      stats.bytes += piece.bytes;
    }
    // Copies to a device may still read the buffer.
    DS4_TRY(device.synchronize());
    reader.release();
    if (options.progress)
      options.progress(stats.bytes, total);
    if (options.cancelled && options.cancelled())
      return Error{ErrorCode::cancelled, "loading was cancelled"};
  }
  stats.direct = reader.direct();
  stats.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  return stats;
}

} // namespace ds4
