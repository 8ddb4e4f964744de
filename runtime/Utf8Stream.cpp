// Utf8Stream.cpp - a byte-wise decoder. utf8proc wants a whole character at
// once and cannot tell a bad one from an unfinished one.
#include "runtime/Utf8Stream.h"

#include <utility>

namespace ds4 {

static constexpr std::string_view kReplacement = "\uFFFD";

std::string Utf8Stream::push(std::string_view bytes) {
  std::string text;
  for (char next : bytes) {
    auto byte = static_cast<uint8_t>(next);
    if (missing > 0) {
      if (byte >= lowest && byte <= highest) {
        held.push_back(next);
        lowest = 0x80;
        highest = 0xBF;
        if (--missing == 0)
          text += std::exchange(held, {});
        continue;
      }
      text += flush(); // and look at the byte as a first one
    }
    if (byte < 0x80) {
      text.push_back(next);
      continue;
    }
    // Table 3-7 of Unicode 15: C0, C1 and F5 up start nothing; the second
    // byte is narrower where it would be too long a form, a surrogate or
    // above U+10FFFF.
    if (byte < 0xC2 || byte > 0xF4) {
      text += kReplacement;
      continue;
    }
    missing = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
    if (byte == 0xE0)
      lowest = 0xA0;
    else if (byte == 0xED)
      highest = 0x9F;
    else if (byte == 0xF0)
      lowest = 0x90;
    else if (byte == 0xF4)
      highest = 0x8F;
    held.push_back(next);
  }
  return text;
}

std::string Utf8Stream::flush() {
  bool cut = missing > 0;
  *this = {};
  return cut ? std::string(kReplacement) : std::string();
}

} // namespace ds4
