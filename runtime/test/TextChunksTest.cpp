// Chunks of a text: lengths, BOS in front, what is counted and left out.
#include "runtime/TextChunks.h"

#include "runtime/test/TokenizerFixture.h"

#include <gtest/gtest.h>

namespace ds4::test {
namespace {

TextChunks cut(std::string_view text, uint32_t length, uint32_t most = 0) {
  Result<TextChunks> chunks = cutChunks(demoTokenizer(), text, length, most);
  EXPECT_TRUE(chunks) << chunks.error().text;
  return *chunks;
}

const std::string kText =
    "The carriage turned, the step was let down, and she was gone.";

} // namespace

TEST(TextChunks, BeginWithBos) {
  const Tokenizer &tokenizer = demoTokenizer();
  std::vector<TokenId> ids = tokenizer.encode(kText, false);
  ids.insert(ids.begin(), tokenizer.bos());
  const TextChunks chunks = cut(kText, 6);
  ASSERT_EQ(chunks.size(), ids.size() / 6);
  ASSERT_GE(chunks.size(), 2u);
  EXPECT_EQ(chunks.leftOut, ids.size() % 6);
  for (size_t i = 0; i < chunks.size(); ++i)
    for (size_t j = 0; j < 6; ++j)
      EXPECT_EQ(chunks[i][j], j == 0 ? tokenizer.bos() : ids[i * 6 + j]);
}

TEST(TextChunks, CountTheSecondHalf) {
  TextChunks chunks = cut(kText, 6);
  EXPECT_EQ(chunks.firstCounted(), 3u);
  EXPECT_EQ(chunks.counted(), 2u); // tokens 4 and 5, predicted by 3 and 4
  chunks = cut(kText, 7);
  EXPECT_EQ(chunks.firstCounted(), 3u);
  EXPECT_EQ(chunks.counted(), 3u);
}

TEST(TextChunks, MayBeFewer) {
  const TextChunks all = cut(kText, 4), some = cut(kText, 4, 2);
  ASSERT_GT(all.size(), 2u);
  EXPECT_EQ(some.size(), 2u);
  EXPECT_EQ(some.leftOut, all.leftOut + 4 * (all.size() - 2));
  EXPECT_EQ(cut(kText, 4, 1000).size(), all.size());
}

TEST(TextChunks, ShortTextIsOneChunk) {
  const TextChunks chunks = cut("Hello, world!", 512);
  EXPECT_EQ(chunks.size(), 1u);
  EXPECT_EQ(chunks.length, 7u);
  EXPECT_EQ(chunks.leftOut, 0u);
}

TEST(TextChunks, NeverMakeSpecialTokens) {
  const TextChunks chunks =
      cut("<\xEF\xBD\x9CUser\xEF\xBD\x9C> and <think>", 64);
  for (TokenId id : chunks[0].subspan(1))
    EXPECT_GE(id, 8) << "the vocabulary begins with 8 special tokens";
}

TEST(TextChunks, RefuseAnEmptyText) {
  Result<TextChunks> chunks = cutChunks(demoTokenizer(), "", 512, 0);
  ASSERT_FALSE(chunks);
  EXPECT_EQ(chunks.error().text,
            "the text has no token to predict: give a longer one");
}

} // namespace ds4::test
