// Tokenizer.cpp - byte-pair merges over the pieces of PreTokenizer.cpp. A
// piece is a linked list of tokens with a queue of possible merges, so that a
// piece of 50,000 letters costs O(n log n), not O(n^2).
#include "runtime/Tokenizer.h"

#include "runtime/Gguf.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <cassert>
#include <functional>
#include <limits>

namespace ds4 {
namespace {

// Token types of GGUF (tokenizer.ggml.token_type).
constexpr int64_t kNormal = 1;
constexpr int64_t kControl = 3;
constexpr int64_t kUserDefined = 4;
constexpr int64_t kByte = 6;

constexpr std::string_view kBosSpelling = "<｜begin▁of▁sentence｜>";
constexpr std::string_view kEosSpelling = "<｜end▁of▁sentence｜>";

/// The byte alphabet of GPT-2: a byte that Latin-1 can print stands for
/// itself, the other 68 are U+0100 and up, in ascending order.
class ByteAlphabet {
public:
  ByteAlphabet() {
    byteOf.fill(-1);
    int next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      bool printable = (byte >= 0x21 && byte <= 0x7E) ||
                       (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      byteOf[printable ? byte : next++] = byte;
    }
  }

  /// The bytes that `spelling` stands for; nothing if it has other letters.
  std::optional<std::string> bytesOf(std::string_view spelling) const {
    std::string bytes;
    while (!spelling.empty()) {
      utf8proc_int32_t codePoint;
      auto size = utf8proc_iterate(
          reinterpret_cast<const utf8proc_uint8_t *>(spelling.data()),
          static_cast<utf8proc_ssize_t>(spelling.size()), &codePoint);
      if (size <= 0 || codePoint >= static_cast<int>(byteOf.size()) ||
          byteOf[codePoint] < 0)
        return std::nullopt;
      bytes.push_back(static_cast<char>(byteOf[codePoint]));
      spelling.remove_prefix(static_cast<size_t>(size));
    }
    return bytes;
  }

private:
  std::array<int, 0x100 + 68> byteOf;
};

uint64_t pairKey(TokenId left, TokenId right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

} // namespace

/// Storage of mergePiece, kept between the pieces of a text.
struct Tokenizer::MergeBuffers {
  std::vector<std::string_view> pieces;
  std::vector<TokenId> tokens;    // -1: merged into its left neighbour
  std::vector<uint32_t> next;     // index of the right neighbour
  std::vector<uint32_t> previous; // index of the left neighbour
  std::vector<uint64_t> queue;    // min-heap of rank << 32 | left index
};

Result<Tokenizer> Tokenizer::create(const TokenizerData &data) {
  if (data.model != "gpt2")
    return invalidInput(fmt::format(
        "tokenizer.ggml.model is {}: this engine has byte-level BPE only, "
        "which is called 'gpt2'",
        ggufQuoted(data.model)));
  if (data.pre != "joyai-llm")
    return invalidInput(fmt::format(
        "tokenizer.ggml.pre is {}: the only pre-tokenizer of this engine is "
        "'joyai-llm' (DeepSeek V4); another one would cut words elsewhere",
        ggufQuoted(data.pre)));
  Tokenizer tokenizer;
  DS4_TRY(tokenizer.addTokens(data));
  DS4_TRY(tokenizer.addMerges(data));
  DS4_ASSIGN(tokenizer.bosId,
             tokenizer.boundaryToken(data.bos, "bos_token_id", kBosSpelling));
  DS4_ASSIGN(tokenizer.eosId,
             tokenizer.boundaryToken(data.eos, "eos_token_id", kEosSpelling));
  return tokenizer;
}

Status Tokenizer::addTokens(const TokenizerData &data) {
  size_t count = data.tokens.size();
  if (data.vocabSize && *data.vocabSize != count)
    return invalidInput(fmt::format(
        "tokenizer.ggml.tokens has {} tokens, but the model's vocabulary has "
        "{}: the file is inconsistent, convert it again",
        count, *data.vocabSize));
  if (count > static_cast<size_t>(std::numeric_limits<TokenId>::max()))
    return invalidInput(fmt::format("tokenizer.ggml.tokens has {} tokens, "
                                    "more than ids can number",
                                    count));
  if (data.tokenTypes.size() != count)
    return invalidInput(fmt::format(
        "tokenizer.ggml.token_type has {} entries for {} tokens: without a "
        "type for each token, user text could spell control tokens",
        data.tokenTypes.size(), count));

  static const ByteAlphabet alphabet;
  bytes.reserve(count);
  special.reserve(count);
  ids.reserve(count);
  trie.emplace_back();
  byteTokens.fill(-1);
  for (size_t index = 0; index < count; ++index) {
    auto id = static_cast<TokenId>(index);
    const std::string &spelling = data.tokens[index];
    int64_t type = data.tokenTypes[index];
    if (type < kNormal || type >= kByte)
      return invalidInput(fmt::format(
          "tokenizer.ggml.token_type[{}] is {} for token {}: byte-level BPE "
          "has types 1 to 5",
          index, type, ggufQuoted(spelling)));
    if (spelling.empty())
      return invalidInput(
          fmt::format("tokenizer.ggml.tokens[{}] is empty", index));
    auto [known, isNew] = ids.emplace(spelling, id);
    if (!isNew)
      return invalidInput(
          fmt::format("tokenizer.ggml.tokens[{}] and [{}] are both spelt {}",
                      known->second, index, ggufQuoted(spelling)));
    special.push_back(type != kNormal);
    if (type != kNormal) {
      bytes.push_back(spelling);
      if (type == kControl || type == kUserDefined)
        addSpecialSpelling(id);
      continue;
    }
    std::optional<std::string> text = alphabet.bytesOf(spelling);
    if (!text)
      return invalidInput(fmt::format(
          "tokenizer.ggml.tokens[{}] {} has type normal, but has a letter "
          "outside the byte alphabet",
          index, ggufQuoted(spelling)));
    if (text->size() == 1)
      byteTokens[static_cast<uint8_t>(text->front())] = id;
    bytes.push_back(std::move(*text));
  }
  for (size_t byte = 0; byte < byteTokens.size(); ++byte)
    if (byteTokens[byte] < 0)
      return invalidInput(fmt::format(
          "tokenizer.ggml.tokens has no normal token for byte 0x{:02x}: some "
          "text could not be written",
          byte));
  return Status::ok();
}

Status Tokenizer::addMerges(const TokenizerData &data) {
  if (data.merges.size() > std::numeric_limits<uint32_t>::max())
    return invalidInput(fmt::format("tokenizer.ggml.merges has {} merges, "
                                    "more than this engine can rank",
                                    data.merges.size()));
  merges.reserve(data.merges.size());
  ranks.reserve(data.merges.size());
  for (size_t rank = 0; rank < data.merges.size(); ++rank) {
    const std::string &text = data.merges[rank];
    size_t space = text.find(' ');
    if (space == std::string::npos || space == 0 || space + 1 == text.size() ||
        text.find(' ', space + 1) != std::string::npos)
      return invalidInput(fmt::format("tokenizer.ggml.merges[{}] {} is not "
                                      "two tokens with a space between",
                                      rank, ggufQuoted(text)));
    std::string left = text.substr(0, space), right = text.substr(space + 1);
    Merge merge{};
    for (auto [spelling, id] :
         {std::pair(left, &merge.left), std::pair(right, &merge.right),
          std::pair(left + right, &merge.result)}) {
      std::optional<TokenId> found = idOf(spelling);
      if (!found)
        return invalidInput(fmt::format("tokenizer.ggml.merges[{}] {} needs "
                                        "token {}, which does not exist",
                                        rank, ggufQuoted(text),
                                        ggufQuoted(spelling)));
      *id = *found;
    }
    merges.push_back(merge);
    // A merge that makes a special token keeps its rank but never applies, or
    // text could spell one.
    if (isSpecial(merge.left) || isSpecial(merge.right) ||
        isSpecial(merge.result))
      continue;
    if (!ranks.emplace(pairKey(merge.left, merge.right), rank).second)
      return invalidInput(
          fmt::format("tokenizer.ggml.merges[{}] {} repeats an earlier merge",
                      rank, ggufQuoted(text)));
  }
  return Status::ok();
}

Result<TokenId> Tokenizer::boundaryToken(std::optional<int64_t> id,
                                         const char *key,
                                         std::string_view spelling) const {
  if (!id) {
    std::optional<TokenId> found = idOf(spelling);
    if (!found)
      return invalidInput(
          fmt::format("the file has neither tokenizer.ggml.{} nor a token {}",
                      key, ggufQuoted(spelling)));
    id = *found;
  }
  if (*id < 0 || static_cast<uint64_t>(*id) >= size())
    return invalidInput(
        fmt::format("tokenizer.ggml.{} is {}, but the vocabulary has {} tokens",
                    key, *id, size()));
  auto token = static_cast<TokenId>(*id);
  if (!isSpecial(token))
    return invalidInput(fmt::format(
        "tokenizer.ggml.{} is {}, an ordinary token that any text can yield",
        key, *id));
  return token;
}

void Tokenizer::addSpecialSpelling(TokenId id) {
  uint32_t node = 0;
  for (char byte : bytes[static_cast<size_t>(id)]) {
    auto [edge, isNew] =
        trie[node].next.try_emplace(byte, static_cast<uint32_t>(trie.size()));
    node = edge->second;
    if (isNew)
      trie.emplace_back();
  }
  trie[node].id = id;
}

/// Bytes of the longest special token that `text` begins with; 0 if none.
size_t Tokenizer::matchSpecial(std::string_view text, TokenId &id) const {
  size_t longest = 0;
  uint32_t node = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    auto edge = trie[node].next.find(text[at]);
    if (edge == trie[node].next.end())
      break;
    node = edge->second;
    if (trie[node].id >= 0) {
      longest = at + 1;
      id = trie[node].id;
    }
  }
  return longest;
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, bool parseSpecial,
                                       TokenizerWork *work) const {
  std::vector<TokenId> result;
  MergeBuffers buffers;
  size_t ordinary = 0; // where the text since the last special token begins
  for (size_t at = 0; parseSpecial && at < text.size();) {
    TokenId id = -1;
    size_t length = matchSpecial(text.substr(at), id);
    if (length == 0) {
      ++at;
      continue;
    }
    encodeOrdinary(text.substr(ordinary, at - ordinary), result, buffers, work);
    result.push_back(id);
    ordinary = at += length;
  }
  encodeOrdinary(text.substr(ordinary), result, buffers, work);
  return result;
}

void Tokenizer::encodeOrdinary(std::string_view text,
                               std::vector<TokenId> &result,
                               MergeBuffers &buffers,
                               TokenizerWork *work) const {
  buffers.pieces.clear();
  splitJoyaiLlm(text, buffers.pieces, work);
  for (std::string_view piece : buffers.pieces)
    mergePiece(piece, result, buffers, work);
}

/// Applies the merge of lowest rank, the leftmost first, until none is left.
void Tokenizer::mergePiece(std::string_view piece, std::vector<TokenId> &result,
                           MergeBuffers &buffers, TokenizerWork *work) const {
  assert(piece.size() < std::numeric_limits<uint32_t>::max() &&
         "a piece of 4 GiB");
  auto count = static_cast<uint32_t>(piece.size());
  auto &[pieces, tokens, next, previous, queue] = buffers;
  tokens.resize(count);
  next.resize(count);
  previous.resize(count);
  queue.clear();

  auto offer = [&](uint32_t left) {
    if (next[left] >= count)
      return;
    auto rank = ranks.find(pairKey(tokens[left], tokens[next[left]]));
    if (rank == ranks.end())
      return;
    queue.push_back(static_cast<uint64_t>(rank->second) << 32 | left);
    std::ranges::push_heap(queue, std::greater<>());
  };

  for (uint32_t index = 0; index < count; ++index) {
    tokens[index] = byteTokens[static_cast<uint8_t>(piece[index])];
    next[index] = index + 1;
    previous[index] = index - 1; // of index 0: wraps, and is never below count
  }
  for (uint32_t index = 0; index < count; ++index)
    offer(index);
  while (!queue.empty()) {
    if (work)
      ++work->mergeSteps;
    std::ranges::pop_heap(queue, std::greater<>());
    const Merge &merge = merges[queue.back() >> 32];
    auto left = static_cast<uint32_t>(queue.back());
    queue.pop_back();
    // Stale if a merge has changed either side since: tokens only grow, so
    // equal ids mean that neither has.
    uint32_t right = next[left];
    if (tokens[left] != merge.left || right >= count ||
        tokens[right] != merge.right)
      continue;
    tokens[left] = merge.result;
    tokens[right] = -1;
    next[left] = next[right];
    if (next[left] < count)
      previous[next[left]] = left;
    offer(left);
    if (previous[left] < count)
      offer(previous[left]);
  }
  for (uint32_t index = 0; index < count; index = next[index])
    result.push_back(tokens[index]);
}

Result<std::string> Tokenizer::decode(std::span<const TokenId> tokens) const {
  std::string text;
  for (size_t index = 0; index < tokens.size(); ++index) {
    if (!isValid(tokens[index]))
      return invalidInput(fmt::format(
          "token {} of the list is id {}, but the vocabulary has {} tokens",
          index, tokens[index], size()));
    text += tokenBytes(tokens[index]);
  }
  return text;
}

std::string_view Tokenizer::tokenBytes(TokenId id) const {
  assert(isValid(id) && "a token id out of range");
  return bytes[static_cast<size_t>(id)];
}

std::optional<TokenId> Tokenizer::idOf(std::string_view spelling) const {
  auto found = ids.find(std::string(spelling));
  if (found == ids.end())
    return std::nullopt;
  return found->second;
}

bool Tokenizer::isSpecial(TokenId id) const {
  assert(isValid(id) && "a token id out of range");
  return special[static_cast<size_t>(id)];
}

Result<Tokenizer> loadTokenizer(const Gguf &file) {
  TokenizerData data;
  DS4_ASSIGN(data.model, file.string("tokenizer.ggml.model"));
  DS4_ASSIGN(data.pre, file.string("tokenizer.ggml.pre"));
  DS4_ASSIGN(data.tokens, file.stringArray("tokenizer.ggml.tokens"));
  DS4_ASSIGN(data.merges, file.stringArray("tokenizer.ggml.merges"));
  DS4_ASSIGN(data.tokenTypes, file.intArray("tokenizer.ggml.token_type"));
  for (auto [key, id] : {std::pair("tokenizer.ggml.bos_token_id", &data.bos),
                         std::pair("tokenizer.ggml.eos_token_id", &data.eos)}) {
    if (!file.find(key))
      continue;
    DS4_ASSIGN(*id, file.i64(key));
  }
  DS4_ASSIGN(std::string architecture, file.string("general.architecture"));
  std::string vocabSizeKey = architecture + ".vocab_size";
  if (file.find(vocabSizeKey)) {
    DS4_ASSIGN(data.vocabSize, file.u64(vocabSizeKey));
  }
  Result<Tokenizer> tokenizer = Tokenizer::create(data);
  if (!tokenizer)
    return Error{tokenizer.error().code,
                 fmt::format("{}: {}", file.path(), tokenizer.error().text)};
  return tokenizer;
}

} // namespace ds4
