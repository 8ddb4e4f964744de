// Generate.cpp - the loop around forward() and the sampler, and its figures:
// prompt speed counts from the call to the first logits, generation speed from
// there to the last token.
#include "tools/Generate.h"

#include "runtime/Chat.h"
#include "runtime/Utf8Stream.h"
#include "tools/Terminal.h"
#include "tools/TokenIds.h"

#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <iterator>
#include <numeric>
#include <unistd.h>

namespace ds4 {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// "12 tokens, 85.3 tok/s".
std::string speedText(size_t tokens, double seconds) {
  if (tokens == 0 || seconds <= 0)
    return fmt::format("{} tokens", tokens);
  return fmt::format("{} token{}, {:.1f} tok/s", tokens, tokens == 1 ? "" : "s",
                     static_cast<double>(tokens) / seconds);
}

class Generator {
public:
  Generator(Session &session, const Tokenizer &tokenizer, Sampler sampler,
            const RunOptions &options)
      : session(session), tokenizer(tokenizer), sampler(sampler),
        options(options) {}

  Status runOnce(std::span<const TokenId> prompt);
  Status converse();

private:
  /// Feeds `prompt`, prints and returns what is sampled after it, EOS
  /// included.
  Result<std::vector<TokenId>> answer(std::span<const TokenId> prompt);
  Result<Logits> prefill(std::span<const TokenId> prompt);
  Result<ChatTurn> beginTurn(ChatSession &chat, std::string_view text);

  Session &session;
  const Tokenizer &tokenizer;
  Sampler sampler;
  const RunOptions &options;
};

Result<Logits> Generator::prefill(std::span<const TokenId> prompt) {
  ProgressBar bar("prompt");
  session.hooks.progress = [&](size_t done, size_t total) {
    bar.update(done, total,
               fmt::format("{}/{} tokens, {:.1f} tok/s", done, total,
                           static_cast<double>(done) / bar.seconds()));
  };
  Result<Logits> logits = session.forward(prompt);
  session.hooks.progress = nullptr;
  return logits;
}

Result<std::vector<TokenId>>
Generator::answer(std::span<const TokenId> prompt) {
  Clock::time_point begin = Clock::now();
  std::vector<TokenId> sampled;
  Utf8Stream stream;
  DS4_ASSIGN(Logits logits, prefill(prompt));
  double promptSeconds = since(begin);
  begin = Clock::now();
  std::string_view end;
  while (sampled.size() < options.tokens) {
    if (interrupted()) {
      end = "; stopped by Ctrl-C";
      break;
    }
    DS4_ASSIGN(TokenId token,
               sampler.sample(logits.row(0), session.position() - 1));
    sampled.push_back(token);
    if (token == tokenizer.eos())
      break;
    fmt::print("{}", stream.push(tokenizer.tokenBytes(token)));
    std::fflush(stdout);
    if (sampled.size() == options.tokens)
      break;
    if (session.position() == session.context()) {
      end = "; the context is full";
      break;
    }
    Result<Logits> next = session.forward(std::span(&token, 1));
    if (!next && next.error().code == ErrorCode::cancelled)
      continue; // the flag is set: ends above
    if (!next)
      return next.error();
    logits = std::move(*next);
  }
  fmt::print("{}\n", stream.flush());
  std::fflush(stdout);
  fmt::print(stderr,
             "prompt: {}; generated: {}; {} of weights read a token{}\n",
             speedText(prompt.size(), promptSeconds),
             speedText(sampled.size(), since(begin)),
             formatBytes(session.weightBytesPerToken()), end);
  return sampled;
}

Status Generator::runOnce(std::span<const TokenId> prompt) {
  Result<std::vector<TokenId>> sampled = answer(prompt);
  return sampled ? Status::ok() : Status(sampled.error());
}

/// What to feed for the next turn, with the session rolled back to where it
/// begins: to the start if the rings no longer reach that far.
Result<ChatTurn> Generator::beginTurn(ChatSession &chat,
                                      std::string_view text) {
  ChatTurn turn = chat.addUser(text, options.think, session.position());
  if (session.rollback(static_cast<uint32_t>(turn.keep)))
    return turn;
  DS4_TRY(session.rollback(0));
  return ChatTurn{0, chat.tokens()};
}

Status Generator::converse() {
  DS4_ASSIGN(ChatFormat format, ChatFormat::create(tokenizer));
  ChatSession chat(format, options.system);
  bool terminal = ::isatty(STDIN_FILENO) && ::isatty(STDERR_FILENO);
  std::optional<std::string> first = options.prompt;
  while (true) {
    std::string line;
    if (first) {
      line = *first;
      first.reset();
    } else {
      if (terminal)
        fmt::print(stderr, "> ");
      if (!std::getline(std::cin, line))
        break; // end of input, or Ctrl-C
    }
    if (line.empty())
      continue;
    clearInterrupt();
    DS4_ASSIGN(ChatTurn turn, beginTurn(chat, line));
    Result<std::vector<TokenId>> sampled = answer(turn.fresh);
    if (!sampled && sampled.error().code != ErrorCode::cancelled)
      return sampled.error();
    chat.addAssistant(sampled ? std::span<const TokenId>(*sampled)
                              : std::span<const TokenId>());
  }
  return Status::ok();
}

/// Ids of the one prompt that `options` give.
Result<std::vector<TokenId>> promptIds(const Tokenizer &tokenizer,
                                       const RunOptions &options) {
  if (!options.ids.empty())
    return readTokenIds(options.ids);
  if (options.raw) {
    std::vector<TokenId> ids = tokenizer.encode(*options.raw, true);
    if (ids.empty() || ids.front() != tokenizer.bos())
      ids.insert(ids.begin(), tokenizer.bos());
    return ids;
  }
  std::string text = *options.prompt;
  if (text == "-")
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  DS4_ASSIGN(ChatFormat format, ChatFormat::create(tokenizer));
  std::vector<ChatMessage> messages;
  if (!options.system.empty())
    messages.push_back({ChatRole::system, options.system, {}, {}});
  messages.push_back({ChatRole::user, text, {}, {}});
  ChatOptions chat;
  chat.thinking = options.think;
  return format.render(messages, chat);
}

Status printLogitsHash(Session &session, std::span<const TokenId> ids) {
  std::vector<uint32_t> rows(ids.size());
  std::iota(rows.begin(), rows.end(), 0);
  DS4_ASSIGN(Logits logits, session.forward(ids, rows));
  auto bytes = std::as_bytes(std::span(logits.values));
  fmt::print("{}\n", contentHash({reinterpret_cast<const char *>(bytes.data()),
                                  bytes.size()}));
  return Status::ok();
}

} // namespace

Status generate(Session &session, const Tokenizer &tokenizer,
                const RunOptions &options) {
  session.hooks.cancelled = interrupted;
  DS4_ASSIGN(Sampler sampler, Sampler::create(options.sampling));
  Generator generator(session, tokenizer, sampler, options);
  if (options.interactive)
    return generator.converse();
  DS4_ASSIGN(std::vector<TokenId> ids, promptIds(tokenizer, options));
  if (options.logitsHash)
    return printLogitsHash(session, ids);
  return generator.runOnce(ids);
}

} // namespace ds4
