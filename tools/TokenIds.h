// TokenIds.h - the value of --ids, an option of several tools.
#ifndef DS4_TOOLS_TOKENIDS_H
#define DS4_TOOLS_TOKENIDS_H

#include "runtime/Result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ds4 {

/// Token ids of a list "1,2,3", or of the text file with that name (numbers,
/// space or comma between). Errors: no such file, something else, nothing.
Result<std::vector<int32_t>> readTokenIds(const std::string &text);

} // namespace ds4

#endif // DS4_TOOLS_TOKENIDS_H
