// InspectReadings.h - the parts of `ds4run inspect` about types: what a file
// uses, how each id is read and what its bytes say to that, and the tables of
// learned levels.
#ifndef DS4_TOOLS_INSPECTREADINGS_H
#define DS4_TOOLS_INSPECTREADINGS_H

#include "runtime/DecodeTables.h"

#include <string>
#include <string_view>
#include <vector>

namespace ds4 {

/// One block of lines: `label` in front of the first.
std::string inspectSection(std::string_view label,
                           const std::vector<std::string> &lines);

/// "43 %".
std::string percentText(double share);

/// Tensors, bytes and bits an element of each type.
std::string typesText(const Gguf &gguf);

/// How each id is read, and why so. Ids that forks use differently are held
/// against samples of their scale bytes. Error: the file cannot be read.
Result<std::string> readingsText(const Gguf &gguf, const DecodeTables &tables);

/// The tables in `found`: where they are, and which of their entries belong to
/// tensors in `tables`.
std::string tablesText(const Gguf &gguf,
                       const std::vector<FoundDecodeTable> &found,
                       const DecodeTables &tables);

} // namespace ds4

#endif // DS4_TOOLS_INSPECTREADINGS_H
