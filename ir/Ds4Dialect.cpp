// Ds4Dialect.cpp - registration of types, attributes and ops.
#include "ir/Ds4Ops.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include "ir/Ds4Dialect.cpp.inc"
#include "ir/Ds4Enums.cpp.inc"

// Types and attributes are defined in Ds4Types.cpp, ops in Ds4Ops.cpp.
void ds4::ir::Ds4Dialect::initialize() {
  registerTypes();
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "ir/Ds4Ops.cpp.inc"
      >();
}
