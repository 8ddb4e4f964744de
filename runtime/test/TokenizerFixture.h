// TokenizerFixture.h - the vocabulary of ds4-tiny for tests, rebuilt from its
// list of merges, and random text that is rich in what tokenizers get wrong.
#ifndef DS4_RUNTIME_TEST_TOKENIZERFIXTURE_H
#define DS4_RUNTIME_TEST_TOKENIZERFIXTURE_H

#include "runtime/Tokenizer.h"

#include <random>
#include <string>
#include <vector>

namespace ds4::test {

/// Owns what a TokenizerData views. Tests change a field to break it.
struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<int64_t> types;
  std::vector<std::string> merges;
  std::string model = "gpt2", pre = "joyai-llm";
  std::optional<int64_t> bos, eos;
  std::optional<uint64_t> vocabSize;

  TokenizerData data() const {
    return {tokens, merges, types, model, pre, bos, eos, vocabSize};
  }
  void add(std::string spelling, int64_t type = 1) {
    tokens.push_back(std::move(spelling));
    types.push_back(type);
  }
  /// Adds a merge and the token it makes.
  void addMerge(const std::string &left, const std::string &right) {
    merges.push_back(left + " " + right);
    add(left + right);
  }
};

/// The 8 special tokens and 256 byte tokens of ds4-tiny, without merges.
Vocabulary byteVocabulary();

/// The vocabulary of ds4-tiny: 2048 tokens, 1784 merges.
Vocabulary demoVocabulary();

/// The tokenizer of ds4-tiny.
const Tokenizer &demoTokenizer();

/// UTF-8 of one code point.
std::string utf8(int32_t codePoint);

/// Well-formed text of up to `maxCodePoints` code points: ASCII, spaces of
/// all kinds, marks, digits of several scripts, Han and Kana with their edges,
/// emoji with joiners, unassigned code points, pieces of special tokens.
std::string randomText(std::mt19937_64 &random, size_t maxCodePoints);

/// Up to `maxBytes` bytes, mostly not UTF-8.
std::string randomBytes(std::mt19937_64 &random, size_t maxBytes);

} // namespace ds4::test

#endif // DS4_RUNTIME_TEST_TOKENIZERFIXTURE_H
