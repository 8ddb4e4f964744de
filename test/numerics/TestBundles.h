// TestBundles.h - bundles of the demo model for the numerics tests, as ds4c
// writes them or with a device file changed.
#ifndef DS4_TEST_NUMERICS_TESTBUNDLES_H
#define DS4_TEST_NUMERICS_TESTBUNDLES_H

#include "runtime/Session.h"
#include "tools/Compilation.h"

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace ds4::test {

/// The request for a bundle NAME of the demo model with rows stored as `kv`:
/// 512 positions, steps of 64, verify steps of 8, logits of all tokens.
CompileRequest demoRequest(std::string_view name, std::string_view kv);

/// A change of a device file: the first `from` becomes `to`.
struct DeviceEdit {
  std::string_view file; ///< path in ops/
  std::string_view from, to;
};

/// Compiles `request` with the edit in every unit that includes the file.
/// Fails the test unless some unit does and has the text.
void compileEdited(const CompileRequest &request, const DeviceEdit &edit);

/// A session of the request's bundle, which is compiled unless it is there.
std::unique_ptr<Session> openDemo(const CompileRequest &request,
                                  unsigned threads);

} // namespace ds4::test

#endif // DS4_TEST_NUMERICS_TESTBUNDLES_H
