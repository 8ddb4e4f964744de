// DeviceTexts.h - the device files of ops/ (prelude, decoders, kernels), as
// they were when this binary was built. Paths are relative to ops/:
// "prelude.h", "weights/q8_0.h", "linear.hip".
#ifndef DS4_CODEGEN_DEVICETEXTS_H
#define DS4_CODEGEN_DEVICETEXTS_H

#include "codegen/EmbeddedText.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ds4::codegen {

/// All device files, ascending by path.
std::span<const EmbeddedText> deviceTexts();

/// The file with this path, or null.
const EmbeddedText *findDeviceText(std::string_view path);

/// Every device file that `text` includes, directly or not, each once, in
/// the order of first inclusion. Names in `#include "..."` are looked up
/// beside the including file, then in ops/. What is not found is left out:
/// the compiler will say so.
std::vector<const EmbeddedText *> includedTexts(std::string_view text);

/// Hash of every path and text; a part of cache keys.
const std::string &deviceTextsHash();

} // namespace ds4::codegen

#endif // DS4_CODEGEN_DEVICETEXTS_H
