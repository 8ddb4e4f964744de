// DevicesCommand.h - `ds4run devices`: what --device can name here.
#ifndef DS4_TOOLS_DEVICESCOMMAND_H
#define DS4_TOOLS_DEVICESCOMMAND_H

#include <string>

namespace ds4 {

/// A line a device; where a kind has none, why.
std::string devicesText();

} // namespace ds4

#endif // DS4_TOOLS_DEVICESCOMMAND_H
