// A format whose scale lies behind its block; read by generated.test.

include "QuantFormats.td"

def broken : WeightFormat<99, 32, 34> {
  let scales = Scales<"f16", 33, 1>;
}
