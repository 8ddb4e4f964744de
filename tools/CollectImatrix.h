// CollectImatrix.h - `ds4run --collect-imatrix`: runs a text through the model
// and writes the importance matrix of its linears.
#ifndef DS4_TOOLS_COLLECTIMATRIX_H
#define DS4_TOOLS_COLLECTIMATRIX_H

#include "runtime/Session.h"
#include "runtime/Tokenizer.h"
#include "tools/RunOptions.h"

namespace ds4 {

/// Error: the bundle names no inputs of linears, or what forward() and the
/// writer refuse. Nothing is written then.
Status collectImatrix(Session &session, const Tokenizer &tokenizer,
                      const RunOptions &options);

} // namespace ds4

#endif // DS4_TOOLS_COLLECTIMATRIX_H
