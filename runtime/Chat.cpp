// Chat.cpp - the prompt format, written once for whole lists of messages and
// for conversations that grow.
#include "runtime/Chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

namespace ds4 {

Result<ChatFormat> ChatFormat::create(const Tokenizer &tokenizer) {
  ChatFormat format(tokenizer);
  for (auto [spelling, id] : {std::pair("<｜User｜>", &format.user),
                              std::pair("<｜Assistant｜>", &format.assistant),
                              std::pair("<think>", &format.thinkBegin),
                              std::pair("</think>", &format.thinkEnd)}) {
    std::optional<TokenId> found = tokenizer.idOf(spelling);
    if (!found || !tokenizer.isSpecial(*found))
      return invalidInput(fmt::format(
          "the vocabulary has no control token '{}': the file is not a chat "
          "model of DeepSeek V4",
          spelling));
    *id = *found;
  }
  return format;
}

void ChatFormat::appendText(std::vector<TokenId> &ids,
                            std::string_view text) const {
  std::vector<TokenId> encoded = tokenizer->encode(text, false);
  ids.insert(ids.end(), encoded.begin(), encoded.end());
}

void ChatFormat::appendAssistant(std::vector<TokenId> &ids,
                                 const Parts &parts) const {
  ids.push_back(assistant);
  if (parts.reasoning) {
    ids.push_back(thinkBegin);
    ids.insert(ids.end(), parts.reasoning->begin(), parts.reasoning->end());
  }
  ids.push_back(thinkEnd);
  ids.insert(ids.end(), parts.answer.begin(), parts.answer.end());
  ids.push_back(tokenizer->eos());
}

void ChatFormat::appendGenerationPrompt(std::vector<TokenId> &ids,
                                        bool thinking) const {
  ids.push_back(assistant);
  ids.push_back(thinking ? thinkBegin : thinkEnd);
}

ChatFormat::Parts ChatFormat::split(const SampledTurn &turn) const {
  std::span<const TokenId> ids = turn.ids;
  if (!ids.empty() && ids.back() == tokenizer->eos())
    ids = ids.first(ids.size() - 1);
  if (!turn.thinking)
    return {std::nullopt, ids};
  auto length =
      static_cast<size_t>(std::ranges::find(ids, thinkEnd) - ids.begin());
  return {ids.first(length), ids.subspan(std::min(length + 1, ids.size()))};
}

Result<std::vector<TokenId>>
ChatFormat::render(std::span<const ChatMessage> messages,
                   const ChatOptions &options) const {
  size_t lastUser = 0; // one past its index; 0: there is none
  for (size_t index = 0; index < messages.size(); ++index)
    if (messages[index].role == ChatRole::user)
      lastUser = index + 1;
  if (options.generationPrompt &&
      (messages.empty() || lastUser != messages.size()))
    return invalidInput("the last message is not the user's: there is nothing "
                        "for the assistant to answer");

  std::vector<TokenId> ids = {tokenizer->bos()};
  for (size_t index = 0; index < messages.size(); ++index) {
    const ChatMessage &message = messages[index];
    switch (message.role) {
    case ChatRole::system:
      if (index != 0)
        return invalidInput(fmt::format(
            "message {} has the role system: only the first message may",
            index));
      appendText(ids, message.text);
      break;
    case ChatRole::user:
      ids.push_back(user);
      appendText(ids, message.text);
      break;
    case ChatRole::assistant: {
      Parts parts;
      std::vector<TokenId> reasoning, answer;
      if (message.sampled) {
        for (TokenId id : message.sampled->ids)
          if (!tokenizer->isValid(id))
            return invalidInput(fmt::format(
                "message {} has sampled token id {}, but the vocabulary has "
                "{} tokens",
                index, id, tokenizer->size()));
        parts = split(*message.sampled);
      } else {
        appendText(answer, message.text);
        parts.answer = answer;
        if (!message.reasoning.empty()) {
          appendText(reasoning, message.reasoning);
          parts.reasoning = reasoning;
        }
      }
      if (!options.keepReasoning && index < lastUser)
        parts.reasoning.reset();
      appendAssistant(ids, parts);
      break;
    }
    }
  }
  if (options.generationPrompt)
    appendGenerationPrompt(ids, options.thinking);
  return ids;
}

ChatSession::ChatSession(const ChatFormat &format, std::string_view system)
    : format(&format), history{format.tokenizer->bos()} {
  format.appendText(history, system);
}

ChatTurn ChatSession::addUser(std::string_view text, bool thinks,
                              size_t evaluated) {
  assert(!isOpen && "the assistant's turn has not ended");
  assert(evaluated <= context.size() && "more evaluated than there is");
  isOpen = true;
  thinking = thinks;
  history.push_back(format->user);
  format->appendText(history, text);
  std::vector<TokenId> next = history;
  format->appendGenerationPrompt(next, thinking);
  auto shared = static_cast<size_t>(std::ranges::mismatch(context, next).in1 -
                                    context.begin());
  // There is always something to feed: history closes what was sampled with
  // EOS at least, so the prompt is longer than what it continues.
  size_t keep = std::min(shared, evaluated);
  assert(keep < next.size());
  context = std::move(next);
  return {keep, tokens().subspan(keep)};
}

void ChatSession::addAssistant(std::span<const TokenId> sampled) {
  assert(isOpen && "there is no turn to end");
  isOpen = false;
  context.insert(context.end(), sampled.begin(), sampled.end());
  SampledTurn turn{thinking, {sampled.begin(), sampled.end()}};
  format->appendAssistant(history, {std::nullopt, format->split(turn).answer});
}

} // namespace ds4
