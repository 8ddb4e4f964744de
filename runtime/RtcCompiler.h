// RtcCompiler.h - compilers that come with a GPU's driver stack and turn the
// text of a unit into code for a chip, in this process: NVRTC and hipRTC. Both
// are opened when they are first needed; nothing here needs them to build.
#ifndef DS4_RUNTIME_RTCCOMPILER_H
#define DS4_RUNTIME_RTCCOMPILER_H

#include "runtime/Result.h"

#include <memory>
#include <string>
#include <string_view>

namespace ds4 {

class RtcCompiler {
public:
  virtual ~RtcCompiler() = default;

  /// All that decides the code beside the text: library, version, chip and
  /// every option. For keys of caches.
  virtual const std::string &id() const = 0;

  /// `text`, which includes nothing, as a code object. `name` stands for it in
  /// messages. Many threads may compile at once. Error: the text is refused;
  /// has the compiler's messages with file and line.
  virtual Result<std::string> compile(const std::string &name,
                                      const std::string &text) const = 0;
};

/// For `arch` such as "sm_90" (NVRTC) or "gfx1151" (hipRTC). Errors: the
/// library is not on this machine, or it does not know the chip.
Result<std::unique_ptr<RtcCompiler>> createNvrtc(std::string_view arch);
Result<std::unique_ptr<RtcCompiler>> createHiprtc(std::string_view arch);
/// The one for the chip. Error besides: the name is neither sm_N nor gfxN.
Result<std::unique_ptr<RtcCompiler>> createRtcCompiler(std::string_view arch);

} // namespace ds4

#endif // DS4_RUNTIME_RTCCOMPILER_H
