// TextChunks.h - cuts a text's tokens into chunks that are processed alone:
// what perplexity is measured over and importance matrices are collected from.
// The rules are llama.cpp's, so that figures compare.
#ifndef DS4_RUNTIME_TEXTCHUNKS_H
#define DS4_RUNTIME_TEXTCHUNKS_H

#include "runtime/Tokenizer.h"

#include <cstdint>
#include <span>
#include <vector>

namespace ds4 {

/// Chunks of equal length.
struct TextChunks {
  uint32_t length = 0;      ///< tokens of a chunk
  std::vector<TokenId> ids; ///< [chunks, length]; each begins with BOS
  uint64_t leftOut = 0;     ///< tokens at the end that fill no chunk

  size_t size() const { return length ? ids.size() / length : 0; }
  std::span<const TokenId> operator[](size_t index) const {
    return std::span(ids).subspan(index * length, length);
  }
  /// First token of a chunk whose logits are counted: the first half is there
  /// to give context.
  uint32_t firstCounted() const { return length / 2; }
  /// Predictions of a chunk that are counted: the last token has no successor.
  uint32_t counted() const { return length - 1 - firstCounted(); }
};

/// BOS and the tokens of `text`, in which names of special tokens are plain
/// text unless `parseSpecial`, in chunks of `length` (at least 2), of which
/// the first `most` are taken (0: all). BOS takes the place of the first token
/// of every chunk. A text shorter than a chunk is one chunk. Error: less
/// than two tokens.
Result<TextChunks> cutChunks(const Tokenizer &tokenizer, std::string_view text,
                             uint32_t length, uint32_t most,
                             bool parseSpecial = false);

} // namespace ds4

#endif // DS4_RUNTIME_TEXTCHUNKS_H
