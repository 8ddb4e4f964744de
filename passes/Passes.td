//===- Passes.td - passes of the ds4 compiler --------------*- tablegen -*-===//
//
// One file a pass; the order in which they run is Pipeline.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef DS4_PASSES
#define DS4_PASSES

include "mlir/Pass/PassBase.td"

def PlanMemory : Pass<"ds4-plan-memory", "::mlir::func::FuncOp"> {
  let summary = "Give every activation a place in the function's arena";
  let description = [{
    An activation is live from the op that makes it to its last reader; what a
    function returns is live to its end. Two activations that are live at one
    op never share a byte, so no kernel reads what it overwrites. A traced
    value is copied right after the op that makes it and lives no longer for
    that. A `ds4.reshape` is a view of its operand.

    Places are found largest first, each at the lowest offset that fits.
    Offsets are multiples of 256 bytes. The result is written as attributes:
    `ds4.offsets` on an op (bytes, one a result) and `ds4.arena_bytes` on the
    function.

    ```mlir
    %0 = ds4.quantize %x {ds4.offsets = array<i64: 1024>} : ...
    ```

    Refused: a function without a body or with several blocks, an op of
    another dialect, a result without a static size.
  }];
  let options = [
    Option<"explain", "explain", "bool", /*default=*/"false",
           "Remark for each function how much sharing saved">,
  ];
}

#endif // DS4_PASSES
