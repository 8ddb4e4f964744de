// PlanCheck.h - what a plan must promise before anything is allocated for it.
#ifndef DS4_RUNTIME_PLANCHECK_H
#define DS4_RUNTIME_PLANCHECK_H

#include "runtime/BundleFormat.h"

#include <string_view>

namespace ds4 {

/// Error, which `where` begins: an argument of a buffer that does not exist,
/// an empty or too large grid, a weight without its layout, a state whose size
/// cannot be.
Status checkPlan(const Plan &plan, std::string_view where);

} // namespace ds4

#endif // DS4_RUNTIME_PLANCHECK_H
