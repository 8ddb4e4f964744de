// EmbeddedText.h - a text file that the build put into the binary
// (cmake/EmbedTexts.cmake).
#ifndef DS4_CODEGEN_EMBEDDEDTEXT_H
#define DS4_CODEGEN_EMBEDDEDTEXT_H

#include <string_view>

namespace ds4 {

struct EmbeddedText {
  std::string_view path; ///< relative to the folder that was embedded
  std::string_view text;
};

} // namespace ds4

#endif // DS4_CODEGEN_EMBEDDEDTEXT_H
