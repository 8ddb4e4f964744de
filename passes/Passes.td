//===- Passes.td - passes of the ds4 compiler --------------*- tablegen -*-===//
//
// One file a pass; the order in which they run is Pipeline.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef DS4_PASSES
#define DS4_PASSES

include "mlir/Pass/PassBase.td"

def SpecialiseVerify : Pass<"ds4-specialise-verify", "::mlir::func::FuncOp"> {
  let summary = "Rows of a short step share every weight that is decoded";
  let description = [{
    In phases of 2 to 8 tokens every linear and every product with experts gets
    `ds4.columns`, the tokens of a step: a block decodes a weight once and
    multiplies it with all of them; of the experts that the tokens use, each is
    read once. Sums of different rows never meet, so no bit depends on it.
  }];
  let options = [
    Option<"explain", "explain", "bool", /*default=*/"false",
           "Remark for a phase that is left alone: why">,
  ];
}

def LayerMajor : Pass<"ds4-layer-major", "::mlir::func::FuncOp"> {
  let summary = "Rows of a long step go through a layer together";
  let description = [{
    In phases of more than 8 tokens every linear and every product with experts
    gets `ds4.columns` = 8: a block decodes a weight once for eight rows. Those
    that a GPU can do with matrix instructions (int8 activations, blocks
    of 32) get 64: a block does a tile, in a launch of its own. Products
    with experts get the pairs of `group_pairs`: a wave does all tokens of the
    step that use its expert.
  }];
  let options = [
    Option<"explain", "explain", "bool", /*default=*/"false",
           "Remark for a phase that is left alone: why">,
  ];
}

def FuseHyperConnection
    : Pass<"ds4-fuse-hyper-connection", "::mlir::func::FuncOp"> {
  let summary = "One launch from a sublayer's result to the next one's input";
  let description = [{
    `hc_post` of one site, `hc_pre` (or `head_collapse`) of the next, the norm and
    the quantisation behind it. The streams are mixed by many blocks; the last
    of them does the rest of the row.

    On a GPU the dot products of `hc_pre` are spread over blocks. In steps of few
    tokens each of them makes the streams for itself; in longer ones `hc_post`
    stays a launch of its own.

    Refused: what makes the streams has other rows than the collapse (the rows
    of a prefill step that need logits).
  }];
  let options = [
    Option<"explain", "explain", "bool", /*default=*/"false",
           "Remark for each op that was not fused: why">,
  ];
}

def FuseProjections : Pass<"ds4-fuse-projections", "::mlir::func::FuncOp"> {
  let summary = "Linears of one input side by side, small work behind them";
  let description = [{
    All linears that read one activation, as f32 or as int8, become one launch.
    Norms, rotations, rounding, activations and quantisation of what they make
    join it if a row is short enough for one block (`most-tail-values`): in the
    block that wrote the tile, or in the last one.

    Refused: an op that also needs something from outside that comes later.
  }];
  let options = [
    Option<"explain", "explain", "bool", /*default=*/"false",
           "Remark for each op that was not fused: why">,
    Option<"mostTailValues", "most-tail-values", "int64_t", /*default=*/"8192",
           "Longest row that joins">,
  ];
}

def FuseCompressor : Pass<"ds4-fuse-compressor", "::mlir::func::FuncOp"> {
  let summary = "A compressor in one launch";
  let description = [{
    From the projections of a compressor to its caches: position embedding,
    pooling, norm, rotation, rounding and the writes. With one token a step all
    of it joins the launch of the projections. With more, pooling and what
    follows are a launch; the rings are written by a later one, since pooling of
    other rows still reads them.
  }];
  let options = [
    Option<"explain", "explain", "bool", /*default=*/"false",
           "Remark for each op that was not fused: why">,
  ];
}

def FuseRouting : Pass<"ds4-fuse-routing", "::mlir::func::FuncOp"> {
  let summary = "The choice of experts behind the router's product";
  let description = [{
    `route` or `hash_route` joins the launch of the router linear: the block that
    finishes last chooses.
  }];
  let options = [
    Option<"explain", "explain", "bool", /*default=*/"false",
           "Remark for each op that was not fused: why">,
  ];
}

def FuseExperts : Pass<"ds4-fuse-experts", "::mlir::func::FuncOp"> {
  let summary = "Two launches for the experts";
  let description = [{
    `expert_gate_up` with `swiglu` and quantisation, each block on its tile; then
    `expert_down`, the shared expert's last linear and `combine`. If tokens share
    experts (`ds4.columns`), `swiglu` and quantisation are a launch of their own;
    if they are grouped by expert, so is `expert_down`.
  }];
  let options = [
    Option<"explain", "explain", "bool", /*default=*/"false",
           "Remark for each op that was not fused: why">,
  ];
}

def FuseAttention : Pass<"ds4-fuse-attention", "::mlir::func::FuncOp"> {
  let summary = "Queries, indexer and attention in a launch each";
  let description = [{
    Norm and rotation of the queries, head by head, with one token a step on a
    GPU in the launch of their product, whose blocks a head is spread over;
    rotation, Hadamard transform and rounding of the index queries; index scores
    and, in the block that finishes last, the selection; attention with the
    inverse rotation and the quantisation of what its block has written.
  }];
  let options = [
    Option<"explain", "explain", "bool", /*default=*/"false",
           "Remark for each op that was not fused: why">,
  ];
}

def FuseHead : Pass<"ds4-fuse-head", "::mlir::func::FuncOp"> {
  let summary = "The greedy choice behind the logits";
  let description = [{
    `argmax` joins the launch of the output head: the block that finishes last
    chooses. Its logits are there already, so it waits for nobody. Not for a
    GPU, where one block would take long: there it is a launch of many.
  }];
  let options = [
    Option<"explain", "explain", "bool", /*default=*/"false",
           "Remark for each op that was not fused: why">,
  ];
}

def Schedule : Pass<"ds4-schedule", "::mlir::func::FuncOp"> {
  let summary = "Independent launches side by side";
  let description = [{
    Launches with the same longest chain of launches before them become one,
    unless ir/Launch.h forbids it. Attention, index scores and argmax stay alone:
    their blocks have a size of their own.
  }];
  let options = [
    Option<"explain", "explain", "bool", /*default=*/"false",
           "Remark for each op that was not fused: why">,
  ];
}

def AssignLayouts : Pass<"ds4-assign-layouts", "::mlir::ModuleOp"> {
  let summary = "Choose where the bytes of each weight lie in device memory";
  let description = [{
    A weight gets layout `lanes` (`runtime/WeightLayout.h`) if every op that
    reads it, in any function, is a product with int8 activations and its rows
    have 8 segments of whole blocks. All others stay in the file's layout. The
    loader moves the bytes; no result changes.

    ```mlir
    %w = ds4.weight "blk.0.attn_q_a.weight" : !ds4.weight<1024x4096xq8_0>
    // becomes
    %w = ds4.weight "blk.0.attn_q_a.weight" : !ds4.weight<1024x4096xq8_0, lanes>
    ```
  }];
  let options = [
    Option<"explain", "explain", "bool", /*default=*/"false",
           "Remark for each weight of an int8 product that stays as in the "
           "file: say why">,
  ];
}

def PlanMemory : Pass<"ds4-plan-memory", "::mlir::func::FuncOp"> {
  let summary = "Give every activation a place in the function's arena";
  let description = [{
    An activation is live from the op that makes it to its last reader; what a
    function returns is live to its end. Two activations that are live at one
    op never share a byte, so no kernel reads what another thread overwrites.
    One exception: elementwise ops and `rms_norm` read a value before they
    write in its place, so that their result takes the bytes of an operand of
    its type that nobody else reads from that launch on. A traced value is
    copied right after the op that makes it and lives no longer for that; it
    is not overwritten so. A `ds4.reshape` is a view of its operand.

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
