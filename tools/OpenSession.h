// OpenSession.h - a session with what ds4run shows while it opens.
#ifndef DS4_TOOLS_OPENSESSION_H
#define DS4_TOOLS_OPENSESSION_H

#include "runtime/Session.h"
#include "tools/RunOptions.h"

#include <memory>

namespace ds4 {

/// Opens a session with a progress bar; says how fast the weights came. Ctrl-C
/// ends the load.
Result<std::unique_ptr<Session>> openSession(Bundle bundle, const Gguf &file,
                                             const RunOptions &options);
/// On a device that is there already.
Result<std::unique_ptr<Session>> openSession(Bundle bundle, const Gguf &file,
                                             std::unique_ptr<Device> device,
                                             const RunOptions &options);
/// With weights that are in no file.
Result<std::unique_ptr<Session>> openSession(Bundle bundle,
                                             const WeightSource &source,
                                             std::unique_ptr<Device> device,
                                             const RunOptions &options);

} // namespace ds4

#endif // DS4_TOOLS_OPENSESSION_H
