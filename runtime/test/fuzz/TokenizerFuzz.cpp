// TokenizerFuzz.cpp - any bytes as text: encoding loses nothing, yields
// special tokens only where asked to, does linear work, and streams back as
// UTF-8. Built as a libFuzzer target, and into the unit tests, where the
// corpus is replayed.
#include "runtime/Gguf.h"
#include "runtime/Tokenizer.h"
#include "runtime/Utf8Stream.h"

#include <cstdio>
#include <cstdlib>

using namespace ds4;

#define DS4_FUZZ_REQUIRE(condition)                                            \
  do {                                                                         \
    if (!(condition)) {                                                        \
      std::fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__,          \
                   #condition);                                                \
      std::abort();                                                            \
    }                                                                          \
  } while (false)

static const Tokenizer &tokenizer() {
  static const Tokenizer loaded = [] {
    Result<Gguf> file =
        Gguf::open(DS4_SOURCE_DIR "/models/ds4-tiny/ds4-tiny-strix.gguf");
    DS4_FUZZ_REQUIRE(file);
    Result<Tokenizer> made = loadTokenizer(*file);
    DS4_FUZZ_REQUIRE(made);
    return std::move(*made);
  }();
  return loaded;
}

static void checkRoundTrip(std::string_view text, bool parseSpecial) {
  TokenizerWork work;
  std::vector<TokenId> ids = tokenizer().encode(text, parseSpecial, &work);
  DS4_FUZZ_REQUIRE(work.scanSteps <= 8 * text.size() + 16);
  DS4_FUZZ_REQUIRE(work.mergeSteps <= 3 * text.size());
  Result<std::string> back = tokenizer().decode(ids);
  DS4_FUZZ_REQUIRE(back && *back == text);
  for (TokenId id : ids)
    DS4_FUZZ_REQUIRE(parseSpecial || !tokenizer().isSpecial(id));

  // A token at a time gives the same characters as all at once.
  Utf8Stream whole, pieces;
  std::string expected = whole.push(text), streamed;
  expected += whole.flush();
  for (TokenId id : ids)
    streamed += pieces.push(tokenizer().tokenBytes(id));
  streamed += pieces.flush();
  DS4_FUZZ_REQUIRE(streamed == expected);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  std::string_view text(reinterpret_cast<const char *>(data), bytes);
  checkRoundTrip(text, false);
  checkRoundTrip(text, true);
  return 0;
}
