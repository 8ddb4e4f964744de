// TokenizeCommand.h - `ds4run tokenize`: text to token ids and back, with the
// tokenizer of a model file. Needs neither bundle nor device.
#ifndef DS4_TOOLS_TOKENIZECOMMAND_H
#define DS4_TOOLS_TOKENIZECOMMAND_H

#include <iosfwd>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace ds4 {

struct TokenizeOptions {
  std::string model;               ///< GGUF file
  std::optional<std::string> text; ///< absent or "-": read standard input
  bool special = false;            ///< parse control tokens spelt in the text
  bool decode = false;             ///< the input is token ids
};

/// Adds the options of the command to `command`; parsing fills `options`,
/// which must live as long.
void addTokenizeOptions(CLI::App &command, TokenizeOptions &options);

/// Writes the ids of the text to `out`, one line with spaces between, without
/// BOS. To decode, reads decimal ids with white space or commas between and
/// writes their bytes as they are. Errors go to `err`. Returns the exit code:
/// 0 done, 1 failed.
int runTokenizeCommand(const TokenizeOptions &options, std::istream &in,
                       std::ostream &out, std::ostream &err);

} // namespace ds4

#endif // DS4_TOOLS_TOKENIZECOMMAND_H
