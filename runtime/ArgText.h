// ArgText.h - an argument of a launch as text: "arena:4096",
// "weight:output.weight", "step".
#ifndef DS4_RUNTIME_ARGTEXT_H
#define DS4_RUNTIME_ARGTEXT_H

#include "runtime/BundleFormat.h"

#include <optional>
#include <string>
#include <string_view>

namespace ds4 {

std::string argToText(const Arg &arg);
/// Nothing: the text is no argument.
std::optional<Arg> argFromText(std::string_view text);

} // namespace ds4

#endif // DS4_RUNTIME_ARGTEXT_H
