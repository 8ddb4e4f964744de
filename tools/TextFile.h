// TextFile.h - the value of --text: a file, as chunks of tokens.
#ifndef DS4_TOOLS_TEXTFILE_H
#define DS4_TOOLS_TEXTFILE_H

#include "runtime/TextChunks.h"

#include <string>

namespace ds4 {

/// Chunks of the text in `path` (cutChunks); "-" reads standard input.
Result<TextChunks> readTextChunks(const Tokenizer &tokenizer,
                                  const std::string &path, uint32_t length,
                                  uint32_t most, bool parseSpecial = false);

} // namespace ds4

#endif // DS4_TOOLS_TEXTFILE_H
