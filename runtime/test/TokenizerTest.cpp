// Encoding and decoding with the vocabulary of ds4-tiny: against the vectors
// of the public tokenizers library, and what must hold for any bytes.
#include "runtime/Tokenizer.h"
#include "runtime/Gguf.h"
#include "runtime/test/GgufBytes.h"
#include "runtime/test/TokenizerFixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <bit>
#include <fstream>

using namespace ds4;
using namespace ds4::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

std::string decoded(const Tokenizer &tokenizer,
                    const std::vector<TokenId> &ids) {
  Result<std::string> text = tokenizer.decode(ids);
  EXPECT_TRUE(text);
  return text ? *text : "";
}

/// A vocabulary whose merges would build each special token out of letters.
Vocabulary treacherousVocabulary() {
  Vocabulary vocabulary = byteVocabulary();
  for (const char *special : {"<think>", "</think>"}) {
    std::string left(special, 1);
    for (const char *at = special + 1; *at; ++at) {
      std::string right(at, 1);
      if (left + right == special)
        vocabulary.merges.push_back(left + " " + right);
      else if (std::ranges::find(vocabulary.tokens, left + right) ==
               vocabulary.tokens.end())
        vocabulary.addMerge(left, right);
      left += right;
    }
  }
  // Special because of its type alone: plain letters in one piece of text.
  vocabulary.add("stop", 4);
  vocabulary.addMerge("s", "t");
  vocabulary.addMerge("o", "p");
  vocabulary.merges.push_back("st op");
  return vocabulary;
}

std::string failure(const Vocabulary &vocabulary) {
  Result<Tokenizer> tokenizer = Tokenizer::create(vocabulary.data());
  return tokenizer ? "no error" : tokenizer.error().text;
}

} // namespace

TEST(Tokenizer, AgreesWithThePublicLibrary) {
  std::ifstream file(DS4_SOURCE_DIR
                     "/runtime/test/data/tokenizer/ds4-tiny.jsonl");
  int count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    auto vector = nlohmann::json::parse(line);
    auto text = vector["text"].get<std::string>();
    auto ids = vector["ids"].get<std::vector<TokenId>>();
    ASSERT_EQ(demoTokenizer().encode(text, true), ids) << line;
    bool hasSpecial = std::ranges::any_of(
        ids, [](TokenId id) { return demoTokenizer().isSpecial(id); });
    if (!hasSpecial) {
      ASSERT_EQ(demoTokenizer().encode(text, false), ids) << line;
    }
    ASSERT_EQ(decoded(demoTokenizer(), ids), text) << line;
  }
  EXPECT_EQ(count, 562);
}

TEST(Tokenizer, RoundTripsAnyText) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 5000; ++round) {
    std::string text =
        round % 2 ? randomText(random, 60) : randomBytes(random, 100);
    for (bool parseSpecial : {false, true})
      ASSERT_EQ(
          decoded(demoTokenizer(), demoTokenizer().encode(text, parseSpecial)),
          text)
          << testing::PrintToString(text);
  }
}

TEST(Tokenizer, BadBytesAreByteTokens) {
  const Tokenizer &tokenizer = demoTokenizer();
  auto ids = tokenizer.encode("a\xFF\xC3(\xE4\xB8", false);
  ASSERT_EQ(ids.size(), 6u);
  EXPECT_EQ(tokenizer.tokenBytes(ids[1]), "\xFF");
  EXPECT_EQ(tokenizer.tokenBytes(ids[2]), "\xC3");
  EXPECT_EQ(tokenizer.tokenBytes(ids[5]), "\xB8");
}

TEST(Tokenizer, NoTextYieldsASpecialToken) {
  Result<Tokenizer> made = Tokenizer::create(treacherousVocabulary().data());
  ASSERT_TRUE(made) << made.error().text;
  auto check = [](const Tokenizer &tokenizer, const std::string &text) {
    for (TokenId id : tokenizer.encode(text, false))
      ASSERT_FALSE(tokenizer.isSpecial(id)) << testing::PrintToString(text);
  };
  std::vector<std::string> spellings;
  for (size_t id = 0; id < made->size(); ++id)
    if (made->isSpecial(static_cast<TokenId>(id)))
      spellings.emplace_back(made->tokenBytes(static_cast<TokenId>(id)));
  ASSERT_EQ(spellings.size(), 9u);
  for (const Tokenizer *tokenizer : {&std::as_const(*made), &demoTokenizer()}) {
    for (const std::string &spelling : spellings) {
      check(*tokenizer, spelling);
      check(*tokenizer, " " + spelling + spelling);
      // Parts in text of their own must not join either.
      for (size_t cut = 0; cut <= spelling.size(); ++cut) {
        check(*tokenizer, spelling.substr(0, cut));
        check(*tokenizer, spelling.substr(cut));
        check(*tokenizer, spelling.substr(cut) + spelling.substr(0, cut));
      }
    }
    std::mt19937_64 random(3);
    for (int round = 0; round < 3000; ++round) {
      check(*tokenizer, randomText(random, 40));
      check(*tokenizer, spellings[random() % spellings.size()] +
                            randomBytes(random, 10) +
                            spellings[random() % spellings.size()]);
    }
  }
}

TEST(Tokenizer, ParsesSpecialTokensOnRequest) {
  Vocabulary vocabulary = byteVocabulary();
  vocabulary.add("<think>er", 4);
  vocabulary.add("unused", 5);
  Result<Tokenizer> tokenizer = Tokenizer::create(vocabulary.data());
  ASSERT_TRUE(tokenizer);
  auto encode = [&](std::string_view text) {
    return tokenizer->encode(text, true);
  };
  TokenId think = *tokenizer->idOf("<think>");
  TokenId thinker = *tokenizer->idOf("<think>er");
  TokenId less = *tokenizer->idOf("<"), e = *tokenizer->idOf("e");
  EXPECT_THAT(encode("<think>"), ElementsAre(think));
  // The longest one wins, the leftmost first; a prefix falls back.
  EXPECT_THAT(encode("<<think>er"), ElementsAre(less, thinker));
  EXPECT_THAT(encode("<think>e"), ElementsAre(think, e));
  EXPECT_THAT(encode("<think><think>er<"), ElementsAre(think, thinker, less));
  // An unused token is never matched.
  EXPECT_EQ(encode("unused").size(), 6u);
}

TEST(Tokenizer, MergesByRankThenFromTheLeft) {
  Vocabulary vocabulary = byteVocabulary();
  vocabulary.addMerge("b", "c");
  vocabulary.addMerge("a", "b");
  vocabulary.addMerge("a", "a");
  vocabulary.addMerge("aa", "aa");
  Result<Tokenizer> tokenizer = Tokenizer::create(vocabulary.data());
  ASSERT_TRUE(tokenizer);
  auto pieces = [&](std::string_view text) {
    std::vector<std::string_view> result;
    for (TokenId id : tokenizer->encode(text, false))
      result.push_back(tokenizer->tokenBytes(id));
    return result;
  };
  EXPECT_THAT(pieces("abc"), ElementsAre("a", "bc"));
  EXPECT_THAT(pieces("aab"), ElementsAre("a", "ab"));
  EXPECT_THAT(pieces("aaaaaaa"), ElementsAre("aaaa", "aa", "a"));
}

TEST(Tokenizer, LongPiecesCostNLogN) {
  // A piece of n bytes has at most 2n - 2 merge candidates: n - 1 pairs at
  // first, then each of at most n - 1 merges offers two and uses up one.
  for (std::string unit : {"a", "the", "\u0301", " ", "\n", "!", "中", "-="}) {
    std::string text;
    while (text.size() < 52000)
      text += unit;
    TokenizerWork work;
    auto ids = demoTokenizer().encode(text, false, &work);
    EXPECT_EQ(decoded(demoTokenizer(), ids), text);
    EXPECT_LE(work.scanSteps, 6 * text.size()) << unit;
    EXPECT_LE(work.mergeSteps, 3 * text.size()) << unit;
  }
}

TEST(Tokenizer, FindsTokensBySpelling) {
  const Tokenizer &tokenizer = demoTokenizer();
  EXPECT_EQ(tokenizer.bos(), 0);
  EXPECT_EQ(tokenizer.eos(), 1);
  EXPECT_EQ(tokenizer.idOf("<｜User｜>"), 3);
  EXPECT_EQ(tokenizer.idOf("<|User|>"), std::nullopt);
  EXPECT_EQ(tokenizer.tokenBytes(*tokenizer.idOf("Ġt")), " t");
  EXPECT_TRUE(tokenizer.isSpecial(7));
  EXPECT_FALSE(tokenizer.isSpecial(8));
}

TEST(Tokenizer, DecodeRefusesIdsOutOfRange) {
  for (TokenId id : {-1, 2048}) {
    Result<std::string> text = demoTokenizer().decode(std::vector{8, id});
    ASSERT_FALSE(text);
    EXPECT_THAT(text.error().text,
                HasSubstr("token 1 of the list is id " + std::to_string(id)));
  }
}

TEST(Tokenizer, TakesBosAndEosFromMetadataFirst) {
  Vocabulary vocabulary = demoVocabulary();
  vocabulary.bos = 2;
  vocabulary.vocabSize = 2048;
  Result<Tokenizer> tokenizer = Tokenizer::create(vocabulary.data());
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(tokenizer->bos(), 2);
  EXPECT_EQ(tokenizer->eos(), 1);
}

TEST(Tokenizer, RefusesMalformedData) {
  auto broken = [](auto change) {
    Vocabulary vocabulary = demoVocabulary();
    change(vocabulary);
    return failure(vocabulary);
  };
  using V = Vocabulary;
  EXPECT_EQ(broken([](V &) {}), "no error");
  EXPECT_THAT(broken([](V &v) { v.model = "llama"; }), HasSubstr("'gpt2'"));
  EXPECT_THAT(broken([](V &v) { v.pre = "qwen2"; }),
              testing::AllOf(HasSubstr("'qwen2'"), HasSubstr("'joyai-llm'")));
  EXPECT_THAT(broken([](V &v) { v.vocabSize = 2049; }),
              HasSubstr("2048 tokens, but the model's vocabulary has 2049"));
  EXPECT_THAT(broken([](V &v) { v.types.pop_back(); }),
              HasSubstr("2047 entries for 2048 tokens"));
  EXPECT_THAT(broken([](V &v) { v.types[9] = 6; }),
              HasSubstr("token_type[9] is 6"));
  EXPECT_THAT(broken([](V &v) { v.types[3] = 1; }),
              HasSubstr("tokens[3] '<｜User｜>' has type normal"));
  EXPECT_THAT(broken([](V &v) { v.tokens[300].clear(); }),
              HasSubstr("tokens[300] is empty"));
  EXPECT_THAT(broken([](V &v) { v.tokens[2047] = "!"; }),
              HasSubstr("tokens[8] and [2047] are both spelt '!'"));
  EXPECT_THAT(broken([](V &v) { v.types[8] = 3; }),
              HasSubstr("no normal token for byte 0x21"));
  EXPECT_THAT(broken([](V &v) { v.merges[5] = "a zzz"; }),
              HasSubstr("merges[5] 'a zzz' needs token 'zzz'"));
  EXPECT_THAT(broken([](V &v) { v.merges[5] = "z q"; }),
              HasSubstr("needs token 'zq'"));
  for (const char *text : {"ab", " b", "a ", "a b c", ""})
    EXPECT_THAT(broken([&](V &v) { v.merges[7] = text; }),
                HasSubstr("is not two tokens"));
  EXPECT_THAT(broken([](V &v) { v.merges[7] = v.merges[6]; }),
              HasSubstr("merges[7] 'r e' repeats"));
  EXPECT_THAT(broken([](V &v) { v.bos = 2048; }),
              HasSubstr("bos_token_id is 2048"));
  EXPECT_THAT(broken([](V &v) { v.eos = -1; }),
              HasSubstr("eos_token_id is -1"));
  EXPECT_THAT(broken([](V &v) { v.eos = 300; }), HasSubstr("ordinary token"));
  EXPECT_THAT(broken([](V &v) { v.tokens[1] = "<eos>"; }),
              HasSubstr("neither tokenizer.ggml.eos_token_id nor"));
  EXPECT_THAT(failure(Vocabulary{}), HasSubstr("byte 0x00"));
}

TEST(Tokenizer, LoadsFromTheDemoModel) {
  Result<Gguf> file =
      Gguf::open(DS4_SOURCE_DIR "/models/ds4-tiny/ds4-tiny-strix.gguf");
  ASSERT_TRUE(file) << file.error().text;
  Result<Tokenizer> loaded = loadTokenizer(*file);
  ASSERT_TRUE(loaded) << loaded.error().text;
  const Tokenizer &built = demoTokenizer();
  ASSERT_EQ(loaded->size(), built.size());
  EXPECT_EQ(loaded->bos(), built.bos());
  EXPECT_EQ(loaded->eos(), built.eos());
  for (TokenId id = 0; loaded->isValid(id); ++id) {
    EXPECT_EQ(loaded->tokenBytes(id), built.tokenBytes(id));
    EXPECT_EQ(loaded->isSpecial(id), built.isSpecial(id)) << id;
  }
  std::mt19937_64 random(4);
  for (int round = 0; round < 1000; ++round) {
    std::string text = randomText(random, 40);
    ASSERT_EQ(loaded->encode(text, true), built.encode(text, true));
  }
}

TEST(Tokenizer, LoadingNamesTheFile) {
  GgufBytes bytes;
  bytes.pair("tokenizer.ggml.model", GgufType::string).text("gpt2");
  bytes.pair("tokenizer.ggml.pre", GgufType::string).text("qwen2");
  auto failure = [&] {
    Result<Gguf> file = bytes.parse();
    EXPECT_TRUE(file) << file.error().text;
    Result<Tokenizer> tokenizer = loadTokenizer(*file);
    return tokenizer ? "no error" : tokenizer.error().text;
  };
  EXPECT_EQ(failure().find("test.gguf: metadata key 'tokenizer.ggml.tokens'"),
            0u);
  for (const char *key : {"tokenizer.ggml.tokens", "tokenizer.ggml.merges"})
    bytes.pair(key, GgufType::array).array(GgufType::string, 1).text("a b");
  bytes.pair("tokenizer.ggml.token_type", GgufType::array)
      .array(GgufType::int32, 1)
      .put<int32_t>(1);
  bytes.pair("general.architecture", GgufType::string).text("deepseek4");
  EXPECT_EQ(failure().find("test.gguf: tokenizer.ggml.pre is 'qwen2'"), 0u);
}
