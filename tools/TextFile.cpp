// TextFile.cpp - see TextFile.h.
#include "tools/TextFile.h"

#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <iterator>

namespace ds4 {

Result<TextChunks> readTextChunks(const Tokenizer &tokenizer,
                                  const std::string &path, uint32_t length,
                                  uint32_t most, bool parseSpecial) {
  std::string text;
  if (path == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    std::ifstream file(path, std::ios::binary);
    // A directory opens, but has no first byte.
    if (!file || (file.peek() == EOF && !file.eof()))
      return ioError(fmt::format("cannot read the text in {}", path));
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  return cutChunks(tokenizer, text, length, most, parseSpecial);
}

} // namespace ds4
