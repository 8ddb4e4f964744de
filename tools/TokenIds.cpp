// TokenIds.cpp - see TokenIds.h.
#include "tools/TokenIds.h"

#include "runtime/Gguf.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <fstream>
#include <iterator>

namespace ds4 {

Result<std::vector<int32_t>> readTokenIds(const std::string &text) {
  std::string list = text;
  if (text.find_first_not_of("0123456789,") != std::string::npos) {
    std::ifstream file(text);
    if (!file)
      return ioError(fmt::format("cannot read the token ids in {}", text));
    list.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::vector<int32_t> ids;
  const char *at = list.data(), *end = at + list.size();
  while (at != end) {
    if (*at == ',' || std::isspace(static_cast<unsigned char>(*at))) {
      ++at;
      continue;
    }
    int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc())
      return invalidInput(
          fmt::format("--ids={}: {} is no token id", text,
                      ggufQuoted(std::string_view(at, end).substr(0, 16))));
    ids.push_back(id);
    at = next;
  }
  if (ids.empty())
    return invalidInput(fmt::format("--ids={}: no token ids", text));
  return ids;
}

} // namespace ds4
