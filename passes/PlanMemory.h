// PlanMemory.h - sizes of what ds4-plan-memory places.
#ifndef DS4_PASSES_PLANMEMORY_H
#define DS4_PASSES_PLANMEMORY_H

#include "mlir/IR/Types.h"

#include <cstdint>
#include <optional>

namespace ds4 {

/// Bytes of an activation, or nothing for a type without a static size.
std::optional<int64_t> activationBytes(mlir::Type type);

} // namespace ds4

#endif // DS4_PASSES_PLANMEMORY_H
