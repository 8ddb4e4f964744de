// Generate.h - text in, text out: prompts, generation, conversations. Prints to
// standard output what the model says and nothing else.
#ifndef DS4_TOOLS_GENERATE_H
#define DS4_TOOLS_GENERATE_H

#include "runtime/Session.h"
#include "runtime/Tokenizer.h"
#include "tools/RunOptions.h"

namespace ds4 {

/// Runs what `options` ask for: one prompt, a conversation, or the hash of a
/// prompt's logits.
Status generate(Session &session, const Tokenizer &tokenizer,
                const RunOptions &options);

} // namespace ds4

#endif // DS4_TOOLS_GENERATE_H
