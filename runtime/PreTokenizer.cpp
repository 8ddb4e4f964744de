// PreTokenizer.cpp - the three splits as scanners over code point classes. A
// backtracking regex engine recurses once a letter on long words and dies on
// generated input, so the alternatives are written out; PreTokenizerTest
// holds them to the regexes. Classes are those of the linked utf8proc
// (2.8.0: Unicode 15).
#include "runtime/PreTokenizer.h"

#include <utf8proc.h>

#include <algorithm>

namespace ds4 {
namespace {

/// Sets that the patterns name; a code point is in several.
enum Class : uint16_t {
  kLetter = 1 << 0,     // \p{L}
  kMark = 1 << 1,       // \p{M}
  kNumber = 1 << 2,     // \p{N}
  kSymbol = 1 << 3,     // \p{P} or \p{S}
  kSpace = 1 << 4,      // \s: White_Space, newlines included
  kNewline = 1 << 5,    // [\r\n]
  kBlank = 1 << 6,      // U+0020 alone
  kAsciiAlpha = 1 << 7, // [A-Za-z]
  kAsciiPunct = 1 << 8, // the 32 printable ASCII non-alphanumerics
  kKanaHan = 1 << 9,    // the ranges of the second split
};

uint16_t classify(utf8proc_int32_t codePoint) {
  uint16_t set = 0;
  switch (utf8proc_category(codePoint)) {
  case UTF8PROC_CATEGORY_LU:
  case UTF8PROC_CATEGORY_LL:
  case UTF8PROC_CATEGORY_LT:
  case UTF8PROC_CATEGORY_LM:
  case UTF8PROC_CATEGORY_LO:
    set = kLetter;
    break;
  case UTF8PROC_CATEGORY_MN:
  case UTF8PROC_CATEGORY_MC:
  case UTF8PROC_CATEGORY_ME:
    set = kMark;
    break;
  case UTF8PROC_CATEGORY_ND:
  case UTF8PROC_CATEGORY_NL:
  case UTF8PROC_CATEGORY_NO:
    set = kNumber;
    break;
  case UTF8PROC_CATEGORY_PC:
  case UTF8PROC_CATEGORY_PD:
  case UTF8PROC_CATEGORY_PS:
  case UTF8PROC_CATEGORY_PE:
  case UTF8PROC_CATEGORY_PI:
  case UTF8PROC_CATEGORY_PF:
  case UTF8PROC_CATEGORY_PO:
  case UTF8PROC_CATEGORY_SM:
  case UTF8PROC_CATEGORY_SC:
  case UTF8PROC_CATEGORY_SK:
  case UTF8PROC_CATEGORY_SO:
    set = kSymbol;
    break;
  case UTF8PROC_CATEGORY_ZS:
  case UTF8PROC_CATEGORY_ZL:
  case UTF8PROC_CATEGORY_ZP:
    set = kSpace;
    break;
  default:
    break;
  }
  // White_Space is the separators plus these controls (PropList.txt).
  if ((codePoint >= 0x09 && codePoint <= 0x0D) || codePoint == 0x85)
    set |= kSpace;
  if (codePoint == '\n' || codePoint == '\r')
    set |= kNewline;
  if (codePoint == ' ')
    set |= kBlank;
  if (codePoint < 0x80 && (set & kLetter))
    set |= kAsciiAlpha;
  if (codePoint < 0x80 && (set & kSymbol))
    set |= kAsciiPunct;
  if ((codePoint >= 0x4E00 && codePoint <= 0x9FA5) ||
      (codePoint >= 0x3040 && codePoint <= 0x30FF))
    set |= kKanaHan;
  return set;
}

/// Splits one stretch of well-formed text. Positions are code point indices.
class Splitter {
public:
  Splitter(std::vector<std::string_view> &pieces, TokenizerWork *work)
      : pieces(pieces), work(work) {}

  /// Reads well-formed code points from `text` on until the first bad byte,
  /// splits them and returns their bytes.
  size_t split(std::string_view text) {
    classes.clear();
    offsets.clear();
    size_t at = 0;
    const auto *bytes = reinterpret_cast<const utf8proc_uint8_t *>(text.data());
    while (at < text.size()) {
      utf8proc_int32_t codePoint;
      auto size = utf8proc_iterate(
          bytes + at, static_cast<utf8proc_ssize_t>(text.size() - at),
          &codePoint);
      if (size <= 0)
        break;
      classes.push_back(classify(codePoint));
      offsets.push_back(at);
      at += static_cast<size_t>(size);
    }
    offsets.push_back(at);
    start = text.data();
    splitNumbers();
    return at;
  }

private:
  void emit(size_t begin, size_t end) {
    pieces.emplace_back(start + offsets[begin], offsets[end] - offsets[begin]);
  }

  /// The first index from `at` on, below `end`, that is in none of `set`.
  size_t skip(size_t at, size_t end, unsigned set) {
    size_t from = at;
    while (at < end && (classes[at] & set))
      ++at;
    steps(at - from + 1);
    return at;
  }

  /// Ditto for runs of what is in none of `set`.
  size_t skipOthers(size_t at, size_t end, unsigned set) {
    size_t from = at;
    while (at < end && !(classes[at] & set))
      ++at;
    steps(at - from + 1);
    return at;
  }

  /// Split 1: \p{N}{1,3}. No later pattern cuts inside numbers.
  void splitNumbers() {
    size_t end = classes.size();
    for (size_t at = 0; at < end;) {
      size_t stop = skip(at, end, kNumber);
      for (; at < stop; at = std::min(at + 3, stop))
        emit(at, std::min(at + 3, stop));
      stop = skipOthers(at, end, kNumber);
      splitKanaHan(at, stop);
      at = stop;
    }
  }

  /// Split 2: [\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+. The
  /// ranges hold marks, symbols and holes too, so split 3 may cut a run again.
  void splitKanaHan(size_t at, size_t end) {
    while (at < end) {
      size_t stop = skip(at, end, kKanaHan);
      splitWords(at, stop);
      at = stop;
      stop = skipOthers(at, end, kKanaHan);
      splitWords(at, stop);
      at = stop;
    }
  }

  /// Split 3: the alternation. What no alternative matches is a piece up to
  /// the next match.
  void splitWords(size_t at, size_t end) {
    size_t unmatched = at;
    while (at < end) {
      size_t stop = matchWord(at, end);
      steps(1);
      if (stop == at) {
        ++at;
        continue;
      }
      if (unmatched < at)
        emit(unmatched, at);
      emit(at, stop);
      at = unmatched = stop;
    }
    if (unmatched < end)
      emit(unmatched, end);
  }

  /// The end of the match at `at`, or `at` if there is none. `end` is the end
  /// of the text as the pattern sees it. A branch consumes what it looked at,
  /// but for one code point; only a run of spaces after the last newline of
  /// a run is looked at again, once.
  size_t matchWord(size_t at, size_t end) {
    auto in = [&](size_t index, unsigned set) {
      return index < end && (classes[index] & set);
    };
    // [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+
    if (in(at, kAsciiPunct) && in(at + 1, kAsciiAlpha))
      return skip(at + 1, end, kAsciiAlpha);
    // [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
    if (!in(at, kNewline | kLetter | kSymbol) && in(at + 1, kLetter | kMark))
      return skip(at + 1, end, kLetter | kMark);
    if (in(at, kLetter | kMark))
      return skip(at, end, kLetter | kMark);
    //  ?[\p{P}\p{S}]+[\r\n]*
    size_t symbols = in(at, kBlank) ? at + 1 : at;
    if (in(symbols, kSymbol))
      return skip(skip(symbols, end, kSymbol), end, kNewline);
    // \s*[\r\n]+ gives back what follows the last newline of the run.
    size_t stop = skip(at, end, kSpace);
    for (size_t last = stop; last > at; --last) {
      steps(1);
      if (classes[last - 1] & kNewline)
        return last;
    }
    // \s+(?!\S) leaves one to a word that follows; \s+ takes a single one.
    if (stop < end && stop - at > 1)
      return stop - 1;
    return stop;
  }

  void steps(size_t count) {
    if (work)
      work->scanSteps += count;
  }

  std::vector<std::string_view> &pieces;
  TokenizerWork *work;
  const char *start = nullptr;
  std::vector<uint16_t> classes; // of each code point
  std::vector<size_t> offsets;   // in bytes, one more than classes
};

} // namespace

void splitJoyaiLlm(std::string_view text, std::vector<std::string_view> &pieces,
                   TokenizerWork *work) {
  Splitter splitter(pieces, work);
  while (!text.empty()) {
    size_t good = splitter.split(text);
    text.remove_prefix(good);
    if (text.empty())
      break;
    pieces.push_back(text.substr(0, 1));
    text.remove_prefix(1);
  }
}

} // namespace ds4
