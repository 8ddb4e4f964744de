// Streaming UTF-8: no partial characters, and the same text for every way to
// cut the bytes.
#include "runtime/Utf8Stream.h"
#include "runtime/test/TokenizerFixture.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

using namespace ds4;
using namespace ds4::test;

namespace {

std::string whole(std::string_view bytes) {
  Utf8Stream stream;
  std::string text = stream.push(bytes);
  return text + stream.flush();
}

bool isWellFormed(std::string_view text) {
  while (!text.empty()) {
    utf8proc_int32_t codePoint;
    auto size = utf8proc_iterate(
        reinterpret_cast<const utf8proc_uint8_t *>(text.data()),
        static_cast<utf8proc_ssize_t>(text.size()), &codePoint);
    if (size <= 0)
      return false;
    text.remove_prefix(static_cast<size_t>(size));
  }
  return true;
}

} // namespace

TEST(Utf8Stream, HoldsBackUnfinishedCharacters) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("a\xE4\xB8"), "a");
  EXPECT_EQ(stream.pending(), 2u);
  EXPECT_EQ(stream.push("\xAD!"), "中!");
  EXPECT_EQ(stream.push("\xF0"), "");
  EXPECT_EQ(stream.push("\x9F"), "");
  EXPECT_EQ(stream.push("\x98"), "");
  EXPECT_EQ(stream.push("\x80"), "😀");
  EXPECT_EQ(stream.pending(), 0u);
  EXPECT_EQ(stream.flush(), "");
}

TEST(Utf8Stream, ReplacesBadBytesAtADefinedPoint) {
  // The unfinished character is given up when the next byte does not fit.
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\xE4\xB8"), "");
  EXPECT_EQ(stream.push("x"), "\uFFFDx");
  EXPECT_EQ(stream.push("\xE4"), "");
  EXPECT_EQ(stream.flush(), "\uFFFD");
  EXPECT_EQ(stream.push("\x80y"), "\uFFFDy");
  // The example of Unicode 15, table 3-11.
  EXPECT_EQ(whole("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  EXPECT_EQ(whole("\xF5\x80\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  // Tables 3-8 and 3-9: too long, surrogates, and above U+10FFFF.
  EXPECT_EQ(whole("\xC0\xAF"), "\uFFFD\uFFFD");
  EXPECT_EQ(whole("\xE0\x80\xAF"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(whole("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(whole("\xF0\x80\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(whole("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41\uFFFD\uFFFD\x42");
}

TEST(Utf8Stream, PassesEveryCodePoint) {
  Utf8Stream stream;
  for (int32_t codePoint = 0; codePoint < 0x110000; ++codePoint) {
    if (codePoint >= 0xD800 && codePoint <= 0xDFFF)
      continue;
    std::string one = utf8(codePoint);
    for (size_t at = 0; at + 1 < one.size(); ++at)
      ASSERT_EQ(stream.push(one.substr(at, 1)), "") << std::hex << codePoint;
    ASSERT_EQ(stream.push(one.substr(one.size() - 1)), one)
        << std::hex << codePoint;
  }
}

TEST(Utf8Stream, CutsDoNotMatter) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 5000; ++round) {
    std::string bytes =
        randomText(random, 4) + randomBytes(random, 6) + randomText(random, 4);
    std::string expected = whole(bytes);
    ASSERT_TRUE(isWellFormed(expected));
    if (isWellFormed(bytes)) {
      ASSERT_EQ(expected, bytes);
    }
    for (size_t cut = 0; cut <= bytes.size(); ++cut) {
      Utf8Stream stream;
      std::string first = stream.push(bytes.substr(0, cut));
      ASSERT_TRUE(isWellFormed(first));
      ASSERT_LE(stream.pending(), 3u);
      std::string second = stream.push(bytes.substr(cut));
      ASSERT_EQ(first + second + stream.flush(), expected);
    }
  }
}
