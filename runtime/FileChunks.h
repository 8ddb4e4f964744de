// FileChunks.h - the reads of a load: aligned chunks of a file, each with the
// pieces of tensors in it. A piece is whole rows, so that chunks can be checked
// and packed in any order.
#ifndef DS4_RUNTIME_FILECHUNKS_H
#define DS4_RUNTIME_FILECHUNKS_H

#include <cstdint>
#include <span>
#include <vector>

namespace ds4 {

/// Where a tensor lies in the file.
struct TensorExtent {
  uint64_t fileOffset;
  uint64_t rowBytes; ///< at least 1
  uint64_t rows;
};

/// Rows of one tensor inside a chunk.
struct ChunkPiece {
  uint32_t tensor;  ///< index into the extents
  uint64_t inChunk; ///< bytes from the chunk's begin to the first row
  uint64_t firstRow, rows;
};

struct FileChunk {
  uint64_t fileOffset = 0; ///< a multiple of DirectFile::kAlignment
  uint64_t bytes = 0;      ///< from fileOffset to the end of the last piece
  std::vector<ChunkPiece> pieces;

  /// What a direct read asks for: whole pages.
  uint64_t readBytes() const;
};

/// Chunks with every row once, ascending in the file, of at most `chunkBytes`
/// (a multiple of the alignment) or one row. Parts of a page may be in two
/// chunks.
std::vector<FileChunk> cutChunks(std::span<const TensorExtent> tensors,
                                 uint64_t chunkBytes);

} // namespace ds4

#endif // DS4_RUNTIME_FILECHUNKS_H
