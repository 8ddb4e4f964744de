// PrintBundle.h - a bundle as a page of text, for people.
#ifndef DS4_TOOLS_PRINTBUNDLE_H
#define DS4_TOOLS_PRINTBUNDLE_H

#include "runtime/BundleFormat.h"

#include <string>

namespace ds4 {

/// Model, profile, targets, memory, and the launches of each function by op.
std::string bundleText(const Bundle &bundle);

} // namespace ds4

#endif // DS4_TOOLS_PRINTBUNDLE_H
