// CollectImatrix.h - `ds4run --collect-imatrix`: runs a text through the model
// and writes the importance matrix of its linears.
#ifndef DS4_TOOLS_COLLECTIMATRIX_H
#define DS4_TOOLS_COLLECTIMATRIX_H

#include "runtime/Session.h"
#include "runtime/Tokenizer.h"
#include "tools/RunOptions.h"

namespace ds4 {

/// With `reference`, a session of the model that this one should be like,
/// products of both models' inputs too. Error: a bundle names no inputs of
/// linears, or what forward() and the writer refuse. Nothing is written then.
Status collectImatrix(Session &session, Session *reference,
                      const Tokenizer &tokenizer, const RunOptions &options);

} // namespace ds4

#endif // DS4_TOOLS_COLLECTIMATRIX_H
