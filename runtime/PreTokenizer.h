// PreTokenizer.h - cuts text into the pieces that byte-pair merges may not
// cross: the `joyai-llm` rules of DeepSeek V4. Merging is in Tokenizer.h.
#ifndef DS4_RUNTIME_PRETOKENIZER_H
#define DS4_RUNTIME_PRETOKENIZER_H

#include <cstdint>
#include <string_view>
#include <vector>

namespace ds4 {

/// Counts work, so that tests can hold it to be linear without a clock.
struct TokenizerWork {
  uint64_t scanSteps = 0;  ///< code points looked at, each look counted
  uint64_t mergeSteps = 0; ///< merge candidates taken from the queue
};

/// Appends the pieces of `text` to `pieces`, in order and without gaps; they
/// view `text`. Takes time linear in the text, and never recurses.
///
/// A byte that is not part of well-formed UTF-8 is a piece of its own, and
/// the text before and after it is split as if it stood alone.
void splitJoyaiLlm(std::string_view text, std::vector<std::string_view> &pieces,
                   TokenizerWork *work = nullptr);

} // namespace ds4

#endif // DS4_RUNTIME_PRETOKENIZER_H
