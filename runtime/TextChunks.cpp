// TextChunks.cpp - see TextChunks.h. llama.cpp: tools/perplexity.
#include "runtime/TextChunks.h"

#include <algorithm>

namespace ds4 {

Result<TextChunks> cutChunks(const Tokenizer &tokenizer, std::string_view text,
                             uint32_t length, uint32_t most,
                             bool parseSpecial) {
  TextChunks chunks;
  chunks.ids = tokenizer.encode(text, parseSpecial);
  chunks.ids.insert(chunks.ids.begin(), tokenizer.bos());
  const size_t tokens = chunks.ids.size();
  if (tokens < 2 || length < 2)
    return invalidInput("the text has no token to predict: give a longer one");
  chunks.length = static_cast<uint32_t>(std::min<size_t>(tokens, length));
  size_t number = tokens / chunks.length;
  if (most)
    number = std::min<size_t>(number, most);
  chunks.leftOut = tokens - number * chunks.length;
  chunks.ids.resize(number * chunks.length);
  for (size_t i = 0; i < number; ++i)
    chunks.ids[i * chunks.length] = tokenizer.bos();
  return chunks;
}

} // namespace ds4
