// FileChunksTest.cpp - every row is read once, in whole rows and aligned reads.
#include "runtime/FileChunks.h"

#include <gtest/gtest.h>

using namespace ds4;

TEST(FileChunks, HaveEveryRowOnce) {
  // Not in the file's order; a gap to skip; a row longer than a chunk.
  const TensorExtent tensors[] = {
      {1'000'000, 34, 5000}, {100, 1000, 77}, {77'100, 20'000, 3}};
  constexpr uint64_t kChunk = 8192;
  std::vector<uint64_t> rows(3);
  uint64_t last = 0;
  for (const FileChunk &chunk : cutChunks(tensors, kChunk)) {
    EXPECT_EQ(chunk.fileOffset % 4096, 0u);
    EXPECT_EQ(chunk.readBytes() % 4096, 0u);
    EXPECT_GE(chunk.readBytes(), chunk.bytes);
    uint64_t end = 0;
    for (const ChunkPiece &piece : chunk.pieces) {
      const TensorExtent &tensor = tensors[piece.tensor];
      EXPECT_EQ(piece.firstRow, rows[piece.tensor]);
      rows[piece.tensor] += piece.rows;
      const uint64_t at = chunk.fileOffset + piece.inChunk;
      EXPECT_EQ(at, tensor.fileOffset + piece.firstRow * tensor.rowBytes);
      EXPECT_GE(at, last);
      last = at + piece.rows * tensor.rowBytes;
      end = piece.inChunk + piece.rows * tensor.rowBytes;
      EXPECT_TRUE(end <= kChunk || (piece.rows == 1 && piece.tensor == 2));
    }
    EXPECT_EQ(chunk.bytes, end);
  }
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(rows[i], tensors[i].rows);
  EXPECT_TRUE(cutChunks({}, kChunk).empty());
}

TEST(FileChunks, TensorsSideBySideShareAChunk) {
  const TensorExtent tensors[] = {{4096, 64, 3}, {4352, 16, 4}, {9000, 4, 1}};
  const std::vector<FileChunk> chunks = cutChunks(tensors, 8192);
  ASSERT_EQ(chunks.size(), 1u);
  EXPECT_EQ(chunks[0].pieces.size(), 3u);
  EXPECT_EQ(chunks[0].fileOffset, 4096u);
  EXPECT_EQ(chunks[0].bytes, 9004u - 4096u);
}
