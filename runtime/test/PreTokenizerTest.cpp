// The scanners of PreTokenizer.cpp against the published regexes, run by
// PCRE2 one after the other, and their cost.
#include "runtime/PreTokenizer.h"
#include "runtime/test/TokenizerFixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

using namespace ds4;
using namespace ds4::test;
using testing::ElementsAre;

namespace {

using Pieces = std::vector<std::string_view>;

Pieces split(std::string_view text) {
  Pieces pieces;
  splitJoyaiLlm(text, pieces);
  return pieces;
}

/// One split with behaviour "isolated": matches and what is between them.
class RegexSplit {
public:
  explicit RegexSplit(const char *pattern) {
    int error;
    PCRE2_SIZE offset;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern),
                         PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error,
                         &offset, nullptr);
    EXPECT_NE(code, nullptr) << pattern << " at " << offset;
    match = pcre2_match_data_create_from_pattern(code, nullptr);
  }
  ~RegexSplit() {
    pcre2_match_data_free(match);
    pcre2_code_free(code);
  }

  Pieces apply(const Pieces &pieces) const {
    Pieces result;
    for (std::string_view piece : pieces) {
      size_t done = 0;
      // A new subject a piece: look-ahead must not see the next piece.
      while (done < piece.size() &&
             pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(piece.data()),
                         piece.size(), done, 0, match, nullptr) > 0) {
        PCRE2_SIZE *range = pcre2_get_ovector_pointer(match);
        if (done < range[0])
          result.push_back(piece.substr(done, range[0] - done));
        result.push_back(piece.substr(range[0], range[1] - range[0]));
        done = range[1];
      }
      if (done < piece.size())
        result.push_back(piece.substr(done));
    }
    return result;
  }

private:
  pcre2_code *code;
  pcre2_match_data *match;
};

/// The patterns of the model's tokenizer.json; \s is written as White_Space,
/// which it means in Oniguruma (PCRE2's own adds U+180E).
Pieces splitByRegex(std::string_view text) {
  static const RegexSplit numbers(R"(\p{N}{1,3})");
  static const RegexSplit kanaHan(
      R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)");
  static const RegexSplit words(
      R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)"
      R"(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)"
      R"(|\p{White_Space}*[\r\n]+|\p{White_Space}+(?!\P{White_Space}))"
      R"(|\p{White_Space}+)");
  Pieces whole;
  if (!text.empty())
    whole.push_back(text);
  return words.apply(kanaHan.apply(numbers.apply(whole)));
}

/// Whether utf8proc and PCRE2, which may know different versions of Unicode,
/// agree on which code points of `text` are assigned.
bool sameUnicode(std::string_view text) {
  static const RegexSplit assigned(R"(\P{Cn}+)");
  static std::vector<signed char> known(0x110000, -1); // by code point
  while (!text.empty()) {
    utf8proc_int32_t codePoint;
    auto size = static_cast<size_t>(utf8proc_iterate(
        reinterpret_cast<const utf8proc_uint8_t *>(text.data()),
        static_cast<utf8proc_ssize_t>(text.size()), &codePoint));
    signed char &same = known[static_cast<size_t>(codePoint)];
    if (same < 0) {
      // An assigned code point is parted from a noncharacter after it.
      std::string pair = std::string(text.substr(0, size)) + "\uFFFF";
      bool inRegex = assigned.apply({pair}).size() == 2;
      same = inRegex == (utf8proc_category(codePoint) != UTF8PROC_CATEGORY_CN);
    }
    if (!same)
      return false;
    text.remove_prefix(size);
  }
  return true;
}

} // namespace

TEST(PreTokenizer, SplitsByTheRules) {
  EXPECT_THAT(split(""), ElementsAre());
  EXPECT_THAT(split("Hello, world!"), ElementsAre("Hello", ",", " world", "!"));
  // A run of digits is cut from its left end.
  EXPECT_THAT(split("id 12345"), ElementsAre("id", " ", "123", "45"));
  EXPECT_THAT(split("٠١٢٣x"), ElementsAre("٠١٢", "٣", "x"));
  EXPECT_THAT(split("a中文b"), ElementsAre("a", "中文", "b"));
  // U+9FA6 and U+3400 are letters, but not in the second split's ranges.
  EXPECT_THAT(split("龥\u9FA6"), ElementsAre("龥", "\u9FA6"));
  EXPECT_THAT(split("\u3400x"), ElementsAre("\u3400x"));
  // Of a run of spaces, the last goes with the word; digits take none.
  EXPECT_THAT(split("a   b"), ElementsAre("a", "  ", " b"));
  EXPECT_THAT(split("a   1"), ElementsAre("a", "   ", "1"));
  EXPECT_THAT(split("a\u00A0b"), ElementsAre("a", "\u00A0b"));
  EXPECT_THAT(split("x;\r\n\r\n  y"), ElementsAre("x", ";\r\n\r\n", " ", " y"));
  EXPECT_THAT(split(" \n \n  z"), ElementsAre(" \n \n", " ", " z"));
  EXPECT_THAT(split("e\u0301\u0302 \u0301"),
              ElementsAre("e\u0301\u0302", " \u0301"));
  EXPECT_THAT(split(".foo _bar <"), ElementsAre(".foo", " _", "bar", " <"));
  EXPECT_THAT(split("👨\u200D👩"), ElementsAre("👨", "\u200D", "👩"));
  // Code points of no class join up, but for one before a word.
  EXPECT_THAT(split("\uFFFF\uFFFFa"), ElementsAre("\uFFFF", "\uFFFFa"));
}

TEST(PreTokenizer, EachBadByteIsAPiece) {
  EXPECT_THAT(split("ab\xFF\xFE"
                    "cd"),
              ElementsAre("ab", "\xFF", "\xFE", "cd"));
  // Truncated, surrogate, too long, above U+10FFFF.
  EXPECT_THAT(split("\xE4\xB8"), ElementsAre("\xE4", "\xB8"));
  EXPECT_EQ(split("\xED\xA0\x80").size(), 3u);
  EXPECT_EQ(split("\xC0\x80").size(), 2u);
  EXPECT_EQ(split("\xF4\x90\x80\x80").size(), 4u);
  // Text before a bad byte ends there: the spaces stay together.
  EXPECT_THAT(split("  \xFFz"), ElementsAre("  ", "\xFF", "z"));
}

TEST(PreTokenizer, AgreesWithTheRegexes) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string text = randomText(random, 12);
    if (!sameUnicode(text))
      continue;
    ASSERT_EQ(split(text), splitByRegex(text)) << testing::PrintToString(text);
  }
}

TEST(PreTokenizer, AgreesWithTheRegexesOnEachCodePoint) {
  int different = 0;
  for (int32_t codePoint = 0; codePoint < 0x110000; ++codePoint) {
    if (codePoint >= 0xD800 && codePoint <= 0xDFFF)
      continue;
    // Planes 4 to 13 are empty, 15 and 16 private.
    if (codePoint == 0x40000)
      codePoint = 0xE0000;
    if (codePoint == 0xF0000)
      break;
    // Beside a word, a symbol, a blank and a newline each class differs.
    std::string one = utf8(codePoint);
    if (!sameUnicode(one)) {
      ++different;
      continue;
    }
    std::string text = one + "a " + one + "!" + one + one + "\n" + one;
    ASSERT_EQ(split(text), splitByRegex(text)) << std::hex << codePoint;
  }
  // Unicode 15 added 4,489 to 14, Unicode 16 another 5,813 to that.
  EXPECT_LE(different, 12000);
}

TEST(PreTokenizer, LooksAtEachCodePointAFewTimes) {
  for (std::string unit :
       {"a", "\u0301", " ", "\n", "7", "中", "!", "\uFFFF", "\xFF", "\n ", " !",
        "a ", " \n \u0378", "ア・", "<", "1a"}) {
    std::string text;
    while (text.size() < 52000)
      text += unit;
    text += "x";
    TokenizerWork work;
    Pieces pieces;
    splitJoyaiLlm(text, pieces, &work);
    EXPECT_LE(work.scanSteps, 6 * text.size()) << testing::PrintToString(unit);
  }
}
