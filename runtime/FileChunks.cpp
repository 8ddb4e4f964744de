// FileChunks.cpp - see FileChunks.h.
#include "runtime/FileChunks.h"

#include "runtime/DirectFile.h"

#include <algorithm>
#include <numeric>

namespace ds4 {

/// A gap of more than this between tensors is skipped, not read.
static constexpr uint64_t kLargestGap = 64 << 10;

uint64_t FileChunk::readBytes() const {
  constexpr uint64_t kPage = DirectFile::kAlignment;
  return (bytes + kPage - 1) / kPage * kPage;
}

std::vector<FileChunk> cutChunks(std::span<const TensorExtent> tensors,
                                 uint64_t chunkBytes) {
  std::vector<uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {},
                    [&](uint32_t i) { return tensors[i].fileOffset; });
  std::vector<FileChunk> chunks;
  for (uint32_t i : order) {
    const TensorExtent &tensor = tensors[i];
    for (uint64_t row = 0; row < tensor.rows;) {
      const uint64_t at = tensor.fileOffset + row * tensor.rowBytes;
      bool fits = false;
      if (!chunks.empty()) {
        const FileChunk &last = chunks.back();
        const uint64_t end = last.fileOffset + last.bytes;
        fits = at >= end && at - end <= kLargestGap &&
               at + tensor.rowBytes <= last.fileOffset + chunkBytes;
      }
      if (!fits)
        chunks.push_back(
            {at / DirectFile::kAlignment * DirectFile::kAlignment, 0, {}});
      FileChunk &chunk = chunks.back();
      const uint64_t inChunk = at - chunk.fileOffset;
      const uint64_t room = chunkBytes > inChunk ? chunkBytes - inChunk : 0;
      const uint64_t rows =
          std::clamp<uint64_t>(room / tensor.rowBytes, 1, tensor.rows - row);
      chunk.pieces.push_back({i, inChunk, row, rows});
      chunk.bytes = inChunk + rows * tensor.rowBytes;
      row += rows;
    }
  }
  return chunks;
}

} // namespace ds4
