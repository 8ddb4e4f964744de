// Utf8Stream.h - turns the bytes of generated tokens into text that may be
// shown at once: a token may end inside a character. Not for tokenizer input,
// which keeps bad bytes.
#ifndef DS4_RUNTIME_UTF8STREAM_H
#define DS4_RUNTIME_UTF8STREAM_H

#include <cstdint>
#include <string>
#include <string_view>

namespace ds4 {

/// Gives out well-formed UTF-8 only, each character as soon as it is complete.
/// Bytes that cannot be part of a character become U+FFFD: one for each
/// longest start of a character that was cut short, and one for each byte that
/// cannot start any (Unicode 15, 3.9, "maximal subparts"), as soon as the byte
/// that shows it has come. The whole output does not depend on how the input
/// was cut.
class Utf8Stream {
public:
  /// Takes more bytes; returns the text that they complete. At most three
  /// bytes are held back.
  std::string push(std::string_view bytes);

  /// Ends the text: an incomplete character, if any, becomes U+FFFD. The
  /// stream is then as new.
  std::string flush();

  /// Bytes held back.
  size_t pending() const { return held.size(); }

private:
  std::string held;      // the start of a character
  unsigned missing = 0;  // bytes until it is complete
  uint8_t lowest = 0x80; // the next byte must be in [lowest, highest]
  uint8_t highest = 0xBF;
};

} // namespace ds4

#endif // DS4_RUNTIME_UTF8STREAM_H
