// Chat.h - messages to token ids in the prompt format of DeepSeek V4, and a
// conversation that tells the runtime which tokens are new. Tools, effort
// levels and the parsing of generated markup are not here.
#ifndef DS4_RUNTIME_CHAT_H
#define DS4_RUNTIME_CHAT_H

#include "runtime/Result.h"
#include "runtime/Tokenizer.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ds4 {

enum class ChatRole { system, user, assistant };

/// What the model generated after a generation prompt, EOS included if it
/// came.
struct SampledTurn {
  bool thinking; ///< the prompt ended in <think>, so `ids` begin inside it
  std::vector<TokenId> ids;
};

struct ChatMessage {
  ChatRole role;
  std::string text;
  std::string reasoning; ///< of an assistant; empty: none
  /// Of an assistant: used instead of text and reasoning, so that history has
  /// the very tokens that the model saw. Encoding its text again may cut it
  /// elsewhere, and a cached prefix would be lost.
  std::optional<SampledTurn> sampled;
};

struct ChatOptions {
  bool thinking = false; ///< the generation prompt opens <think>
  /// Keep the reasoning of all turns, as requests with tools need. Else only
  /// that of assistant turns after the last user turn is kept.
  bool keepReasoning = false;
  bool generationPrompt = true; ///< end where the assistant is to begin
};

/// The prompt format:
///   BOS [system] ( <｜User｜>text | assistant )*
///   assistant: <｜Assistant｜>[<think>reasoning]</think>answer EOS
///   generation prompt: <｜Assistant｜></think> or <｜Assistant｜><think>
/// Control tokens come from here alone: text of messages is encoded without
/// parsing special tokens, each message apart from its neighbours.
class ChatFormat {
public:
  /// Fails if a control token is missing. `tokenizer` must outlive this.
  static Result<ChatFormat> create(const Tokenizer &tokenizer);

  /// Fails on a system message that is not the first, on sampled ids out of
  /// range, and if a generation prompt is asked for after anything but a user
  /// message.
  Result<std::vector<TokenId>> render(std::span<const ChatMessage> messages,
                                      const ChatOptions &options) const;

  /// The parts of a sampled turn, without </think> and EOS. Thinking that was
  /// cut short has no answer. They view `turn`.
  struct Parts {
    std::optional<std::span<const TokenId>> reasoning;
    std::span<const TokenId> answer;
  };
  Parts split(const SampledTurn &turn) const;

private:
  friend class ChatSession;
  explicit ChatFormat(const Tokenizer &tokenizer) : tokenizer(&tokenizer) {}

  void appendText(std::vector<TokenId> &ids, std::string_view text) const;
  void appendAssistant(std::vector<TokenId> &ids, const Parts &parts) const;
  void appendGenerationPrompt(std::vector<TokenId> &ids, bool thinking) const;

  const Tokenizer *tokenizer;
  TokenId user = -1, assistant = -1, thinkBegin = -1, thinkEnd = -1;
};

/// What to feed the model for a turn.
struct ChatTurn {
  size_t keep; ///< tokens of the sequence that stay; go back to this position
  std::span<const TokenId> fresh; ///< the rest, never empty; until next change
};

/// A conversation of alternating turns, kept as token ids: no turn is encoded
/// twice. Reasoning leaves the history when the next user turn begins, so a
/// thinking model is rolled back to where its last turn began.
class ChatSession {
public:
  /// `format` must outlive this; an empty `system` is none.
  ChatSession(const ChatFormat &format, std::string_view system);

  /// Begins a turn. `evaluated`: how many of tokens() the model has seen; the
  /// last sampled one often has not been fed back.
  ChatTurn addUser(std::string_view text, bool thinking, size_t evaluated);

  /// Ends the turn that addUser began with what was sampled, however little.
  void addAssistant(std::span<const TokenId> sampled);

  /// The whole sequence: the prompt of the last turn, then what was sampled.
  std::span<const TokenId> tokens() const { return context; }

private:
  const ChatFormat *format;
  std::vector<TokenId> history; // finished turns as later prompts have them
  std::vector<TokenId> context;
  bool thinking = false; // of the turn that is open
  bool isOpen = false;   // addUser came, addAssistant did not
};

} // namespace ds4

#endif // DS4_RUNTIME_CHAT_H
