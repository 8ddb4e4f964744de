// WeightLoader.cpp - chunks hold whole rows, so that they are checked and
// packed in any order and on any thread; only the calling thread talks to the
// device.
#include "runtime/WeightLoader.h"

#include "runtime/ChunkReaders.h"
#include "runtime/LanePacker.h"
#include "runtime/WeightCheck.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <deque>

namespace ds4 {

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

/// One tensor on its way.
struct TensorLoad {
  TensorLoad(const WeightTarget &target, uint64_t fileOffset)
      : desc(*target.desc), memory(static_cast<std::byte *>(target.memory)),
        check(desc, fileOffset, target.modes) {
    const auto elements = static_cast<uint64_t>(desc.shape.back());
    fileRow = weightRowBytes(desc.format, elements);
    deviceRow = deviceRowBytes(desc.format, desc.layout, elements);
    if (desc.layout == WeightLayout::lanes)
      lanes = LaneRow::of(desc.format, elements);
  }

  const WeightDesc &desc;
  std::byte *memory;
  WeightCheck check;
  uint64_t fileRow, deviceRow;
  std::optional<LaneRow> lanes; ///< nothing: rows stay as they are
  size_t laneRow = 0;           ///< number of `lanes` for the packer
};

class WeightLoad {
public:
  WeightLoad(Device &device, const LoadOptions &options)
      : device(device), options(options) {}
  ~WeightLoad() {
    if (deviceChunk)
      device.free(deviceChunk);
  }

  Result<LoadStats> run(const Gguf &file,
                        std::span<const WeightTarget> targets);

private:
  using Slot = ChunkReaders::Slot;

  Status preparePacker();
  /// On a reading thread: checks a chunk, packs where the device does not.
  Status work(Slot &slot);
  /// Hands a chunk to the device.
  Status place(const Slot &slot);

  Device &device;
  const LoadOptions &options;
  std::deque<TensorLoad> loads;
  std::vector<FileChunk> chunks;
  uint64_t chunkBytes = 0; ///< of the largest
  std::unique_ptr<LanePacker> packer;
  std::byte *deviceChunk = nullptr; ///< null: kernels read staging memory
};

Status WeightLoad::preparePacker() {
  std::vector<LaneRow> rows;
  for (TensorLoad &load : loads) {
    if (!load.lanes)
      continue;
    const auto same = [&](const LaneRow &row) {
      return LanePacker::describe(row) == LanePacker::describe(*load.lanes);
    };
    const auto it = std::ranges::find_if(rows, same);
    load.laneRow = static_cast<size_t>(it - rows.begin());
    if (it == rows.end())
      rows.push_back(*load.lanes);
  }
  if (rows.empty())
    return Status::ok();
  DS4_ASSIGN(packer, LanePacker::create(device, rows));
  if (packer && !device.sharesMemory()) {
    DS4_ASSIGN(void *memory, device.allocate(chunkBytes, "staging"));
    deviceChunk = static_cast<std::byte *>(memory);
  }
  return Status::ok();
}

Status WeightLoad::work(Slot &slot) {
  std::byte *packed = slot.packed.get();
  for (const ChunkPiece &piece : chunks[slot.chunk].pieces) {
    TensorLoad &load = loads[piece.tensor];
    const std::byte *rows = slot.data.get() + piece.inChunk;
    const uint64_t blockBytes = weightFormatInfo(load.desc.format).blockBytes;
    DS4_TRY(load.check.check({rows, piece.rows * load.fileRow},
                             piece.firstRow * load.fileRow / blockBytes));
    if (load.lanes && packed) {
      load.lanes->pack(rows, piece.rows, packed);
      packed += piece.rows * load.deviceRow;
    }
  }
  return Status::ok();
}

Status WeightLoad::place(const Slot &slot) {
  const std::byte *packed = slot.packed.get();
  for (const ChunkPiece &piece : chunks[slot.chunk].pieces) {
    const TensorLoad &load = loads[piece.tensor];
    std::byte *rows = slot.data.get() + piece.inChunk;
    std::byte *to = load.memory + piece.firstRow * load.deviceRow;
    if (!load.lanes) {
      DS4_TRY(device.copyIn(to, rows, piece.rows * load.fileRow));
    } else if (!packer) {
      DS4_TRY(device.copyIn(to, packed, piece.rows * load.deviceRow));
      packed += piece.rows * load.deviceRow;
    } else {
      if (deviceChunk) {
        std::byte *const copy = deviceChunk + piece.inChunk;
        DS4_TRY(device.copyIn(copy, rows, piece.rows * load.fileRow));
        rows = copy;
      }
      DS4_TRY(packer->pack(load.laneRow, piece.rows, rows, to));
    }
  }
  // Copies and kernels read the buffers until then.
  return device.synchronize();
}

Result<LoadStats> WeightLoad::run(const Gguf &file,
                                  std::span<const WeightTarget> targets) {
  const auto begin = std::chrono::steady_clock::now();
  LoadStats stats;
  std::vector<TensorExtent> extents;
  uint64_t total = 0;
  for (const WeightTarget &target : targets) {
    const GgufTensor *tensor = file.findTensor(target.desc->name);
    assert(tensor && "matchWeights was not called");
    const TensorLoad &load = loads.emplace_back(target, tensor->fileOffset);
    extents.push_back({tensor->fileOffset, load.fileRow, tensor->rows()});
    total += target.desc->bytes;
  }
  chunks = cutChunks(extents, options.chunkBytes);
  for (const FileChunk &chunk : chunks)
    chunkBytes = std::max(chunkBytes, chunk.readBytes());
  DS4_TRY(preparePacker());

  const bool packHere =
      !packer && std::ranges::any_of(loads, [](const TensorLoad &load) {
        return load.lanes.has_value();
      });
  const std::string path = file.path();
  DS4_ASSIGN(DirectFile data, DirectFile::open(path, options.allowDirect));
  DS4_ASSIGN(const std::unique_ptr<ChunkReaders> readers,
             ChunkReaders::start(std::move(data), path, chunks, device,
                                 static_cast<unsigned>(std::min<size_t>(
                                     options.threads, chunks.size())),
                                 chunkBytes,
                                 packHere ? chunkBytes + chunkBytes / 8 : 0,
                                 [this](Slot &slot) { return work(slot); }));
  size_t failedChunk = chunks.size();
  std::optional<Error> failure;
  while (Slot *slot = readers->next()) {
    if (slot->failure && slot->chunk < failedChunk) {
      failedChunk = slot->chunk;
      failure = slot->failure;
    }
    if (!failure) {
      DS4_TRY(place(*slot));
      for (const ChunkPiece &piece : chunks[slot->chunk].pieces)
        stats.bytes += piece.rows * loads[piece.tensor].fileRow;
      if (options.progress)
        options.progress(stats.bytes, total);
      if (options.cancelled && options.cancelled())
        return Error{ErrorCode::cancelled, "loading was cancelled"};
    }
    readers->release(slot);
  }
  if (failure)
    return *failure;
  stats.direct = readers->direct();
  stats.packedByDevice = packer != nullptr;
  stats.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  return stats;
}

} // namespace

Result<LoadStats> loadWeights(const Gguf &file, Device &device,
                              std::span<const WeightTarget> targets,
                              const LoadOptions &options) {
  return WeightLoad(device, options).run(file, targets);
}

} // namespace ds4
