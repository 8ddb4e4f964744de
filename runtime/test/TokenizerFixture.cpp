// TokenizerFixture.cpp - see the header.
#include "runtime/test/TokenizerFixture.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>

namespace ds4::test {

std::string utf8(int32_t codePoint) {
  utf8proc_uint8_t bytes[4];
  auto size = utf8proc_encode_char(codePoint, bytes);
  return {reinterpret_cast<char *>(bytes), static_cast<size_t>(size)};
}

Vocabulary byteVocabulary() {
  Vocabulary vocabulary;
  for (const char *spelling :
       {"<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>",
        "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "｜DSML｜"})
    vocabulary.add(spelling, 3);
  // GPT-2's alphabet, ascending by code point: first what is printable.
  for (int32_t byte = 0; byte < 256; ++byte)
    if ((byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD))
      vocabulary.add(utf8(byte));
  for (int32_t codePoint = 0x100; codePoint < 0x100 + 68; ++codePoint)
    vocabulary.add(utf8(codePoint));
  return vocabulary;
}

Vocabulary demoVocabulary() {
  Vocabulary vocabulary = byteVocabulary();
  std::ifstream file(DS4_SOURCE_DIR
                     "/runtime/test/data/tokenizer/ds4-tiny-merges.txt");
  for (std::string left, right; file >> left >> right;)
    vocabulary.addMerge(left, right);
  return vocabulary;
}

const Tokenizer &demoTokenizer() {
  static const Tokenizer tokenizer = [] {
    Result<Tokenizer> made = Tokenizer::create(demoVocabulary().data());
    if (!made) {
      std::cerr << made.error().text << '\n';
      std::abort();
    }
    return std::move(*made);
  }();
  return tokenizer;
}

std::string randomText(std::mt19937_64 &random, size_t maxCodePoints) {
  static const std::vector<std::string> fragments = {
      " ", "  ", "\n", "\r\n", "\r", "\t", "\v", "\f", "\x1F", "\u0085",
      "\u00A0", "\u1680", "\u180E", "\u2003", "\u200B", "\u2028", "\u202F",
      "\u3000", "\uFEFF",
      // letters, marks and digits
      "a", "Z", "the", "é", "ß", "e\u0301", "\u0301", "\u0E33", "\u20E3", "ж",
      "ש", "\u05B7", "ا", "\u064B", "क", "\u093F", "ǅ", "ʰ", "ª", "0", "7",
      "12345", "٣", "४", "Ⅷ", "½", "²", "〇", "\U0001D7D9",
      // Han and Kana, their edges, holes, marks and symbols
      "一", "龥", "\u9FA6", "\u4DFF", "\u3400", "\U00020000", "\u303F",
      "\u3040", "あ", "\u3099", "\u309B", "ゟ", "\u30A0", "ア", "・", "ー",
      "\u30FF", "\u3100", "한",
      // punctuation and symbols
      "!", "_", "~", "<", ">", "<<", "'s", "\\", "^", "`", "$", "+", "€", "…",
      "«", "｜", "▁", "！", "😀", "👨\u200D👩\u200D👧", "\uFE0F", "🏽",
      "\U0001F1E9\U0001F1EA",
      // nothing in particular
      std::string(1, '\0'), "\x7F", "\u00AD", "\u0378", "\uE000", "\uFFFD",
      "\uFFFF", "\U0010FFFF",
      // special tokens, whole and cut
      "<think>", "</think>", "<thi", "nk>", "<｜", "User", "｜>", "<｜User｜>",
      "<｜end▁of▁sentence｜>", "｜DSML｜", "DSML"};
  std::string text;
  size_t count = random() % (maxCodePoints + 1);
  while (count-- > 0) {
    if (random() % 8 == 0) {
      // Any code point but the surrogates, small ones more often.
      auto codePoint = static_cast<int32_t>(random() % 0x110000);
      codePoint >>= random() % 14;
      if (codePoint < 0xD800 || codePoint > 0xDFFF)
        text += utf8(codePoint);
    } else {
      text += fragments[random() % fragments.size()];
    }
  }
  return text;
}

std::string randomBytes(std::mt19937_64 &random, size_t maxBytes) {
  std::string bytes(random() % (maxBytes + 1), '\0');
  for (char &byte : bytes)
    byte = static_cast<char>(random() >> (random() % 2 ? 0 : 1));
  return bytes;
}

} // namespace ds4::test
