// TokenizeCommand.cpp - see the header.
#include "tools/TokenizeCommand.h"

#include "runtime/Gguf.h"
#include "runtime/Tokenizer.h"

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include <charconv>
#include <istream>
#include <iterator>
#include <ostream>

namespace ds4 {

static Result<std::vector<TokenId>> parseIds(std::string_view text) {
  constexpr std::string_view kSeparators = " \t\r\n,";
  std::vector<TokenId> ids;
  while (true) {
    size_t begin = text.find_first_not_of(kSeparators);
    if (begin == std::string_view::npos)
      return ids;
    text.remove_prefix(begin);
    std::string_view word = text.substr(0, text.find_first_of(kSeparators));
    text.remove_prefix(word.size());
    TokenId id;
    auto [end, error] =
        std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size())
      return invalidInput(fmt::format(
          "{} is not a token id: give decimal numbers with spaces between",
          ggufQuoted(word)));
    ids.push_back(id);
  }
}

static Result<std::string> tokenizeInput(const TokenizeOptions &options,
                                         std::istream &in) {
  DS4_ASSIGN(Gguf file, Gguf::open(options.model));
  DS4_ASSIGN(Tokenizer tokenizer, loadTokenizer(file));
  std::string text = options.text.value_or("-");
  if (text == "-") {
    text.assign(std::istreambuf_iterator<char>(in), {});
    if (in.bad())
      return ioError("cannot read standard input");
  }
  if (options.decode) {
    DS4_ASSIGN(std::vector<TokenId> ids, parseIds(text));
    return tokenizer.decode(ids);
  }
  return fmt::format("{}\n",
                     fmt::join(tokenizer.encode(text, options.special), " "));
}

void addTokenizeOptions(CLI::App &command, TokenizeOptions &options) {
  command.add_option("-m,--model", options.model, "model file (GGUF)")
      ->type_name("FILE")
      ->required();
  command
      .add_option("text", options.text,
                  "text, or ids with --decode; '-' or none reads standard "
                  "input")
      ->type_name("TEXT");
  command.add_flag("--special", options.special,
                   "parse control tokens that the text spells");
  command.add_flag("--decode", options.decode, "turn ids back into text");
}

int runTokenizeCommand(const TokenizeOptions &options, std::istream &in,
                       std::ostream &out, std::ostream &err) {
  Result<std::string> output = tokenizeInput(options, in);
  if (output && !(out << *output << std::flush))
    output = ioError("cannot write standard output");
  if (output)
    return 0;
  err << "error: " << output.error().text << '\n';
  return 1;
}

} // namespace ds4
