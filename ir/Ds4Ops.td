//===- Ds4Ops.td - ops of the ds4 dialect ------------------*- tablegen -*-===//
//
// Each op's description is its contract: shapes, rounding, order of sums,
// numbered constraints. ops/<op>_ref.cpp says the same in plain loops and
// ops/<op>.hip (for Ds4Elementwise ops codegen/ElementwiseEmitter.cpp) does it
// on a device; all three give the same bits. Row domains and the two orders of
// sums are defined in Ds4Dialect.td.
//
// Letters: T rows of the domain, D hidden, M residual streams, H heads, d head
// width, K input width, E experts, F expert width, k experts used, R ratio.
//
// Formulas: DeepSeek-V4-Flash inference/model.py, restated in docs/model.md.
//
//===----------------------------------------------------------------------===//

#ifndef DS4_IR_OPS
#define DS4_IR_OPS

include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/IR/RegionKindInterface.td"
include "Ds4Types.td"

class Ds4_Op<string mnemonic, list<Trait> traits = []>
    : Op<Ds4_Dialect, mnemonic, traits>;

/// Item i of a row of the result is a function of the items i of the operands
/// and of what belongs to the row as a whole. An item is a value of the last
/// dimension, or of a row where shapes are equal. No kernel is written for such
/// an op: codegen/ElementwiseEmitter.cpp has a case that prints it, and those
/// that follow one another in a launch become one loop.
def Ds4Elementwise : NativeOpTrait<"Elementwise"> {
  let cppNamespace = "::ds4::ir";
}

/// The domain of an op whose rows need not be tokens (ratio 1, the default).
def Ds4_RowsOf : DefaultValuedAttr<Ds4_RowsAttr, "1">;

//===----------------------------------------------------------------------===//
// Leaves: what a phase reads besides its arguments
//===----------------------------------------------------------------------===//

def Ds4_WeightOp : Ds4_Op<"weight", [Pure]> {
  let summary = "a tensor of the model file, by its GGUF name";
  let arguments = (ins StrAttr:$name);
  let results = (outs Ds4_WeightType:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
}

def Ds4_BooksOp : Ds4_Op<"books", [Pure]> {
  let summary = "learned codebooks of an adaptive weight, as f32 or int8";
  let description = [{
    The decode table of the weight `name` (format `q3_1_rocmfp3_mix` or
    `q2_1_rocmfp2_mix`): two books an expert, levels in code order; a weight of
    two dimensions is one expert. Two forms:

    * f32 [E, 2, levels]: the levels, widened from bfloat16.
    * i8 [E, 2, levels + 4]: the levels rounded to int8, then the four bytes of
      an f32: behind the first book S, what whole products are multiplied with;
      behind the second one R, a power of two, of which its levels are
      multiples: level = int8 * S, or int8 * (S * R). With m0, m1 = max|level|
      of the books S = max(m0, m1 / 4) / 127 and R the least of 2^-7, ..., 2^2
      with m1 <= 127 (S R), or 2^2; int8 level = round-half-to-even(level / S,
      or level / (S R)), clamped to -127..127; all in f32.

    For an expert of mode 0 both books hold the fixed levels of the
    non-adaptive sibling format (in the i8 form S = R = 1, hence exact); the
    loader refuses its scale bytes above 0x7e.
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs Ds4_Books:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
}

def Ds4_RotationsOp : Ds4_Op<"rotations", [Pure]> {
  let summary = "which experts of an adaptive weight are stored rotated";
  let description = [{
    From the decode table of the weight `name` (format `q3_1_rocmfp3_mix`):
    [E], 1 for an expert whose matrix W was stored as W diag(H, H, ...), H as in
    ds4.rotate, and 0 for another. Since H H = 1, W x is the stored matrix times
    the rotated x.
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs Ds4_Int:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
}

def Ds4_StateOp : Ds4_Op<"state", [Pure]> {
  let summary = "a cache of the sequence, by name";
  let description = [{
    `rows` is the domain of its rows: one a token, or one a window. After n
    tokens the rows 0 ... floor(n / ratio) - 1 have been stored, each in its
    slot, row number modulo the rows of the type.
    Constraint: (C1) the domain is not `outputs`.
  }];
  let arguments = (ins StrAttr:$name, Ds4_RowsOf:$rows);
  let results = (outs Ds4_StateType:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Ds4_RopeTableOp : Ds4_Op<"rope_table", [Pure]> {
  let summary = "cos and sin of every position, made on the host in double";
  let description = [{
    Result [positions, 2 * pairs]: element 2i of row p is cos(p w_i), element
    2i + 1 is sin(p w_i), computed in binary64 and rounded once to f32.
    With n = 2 * pairs: theta_i = base^(-2i/n). If `factor` is 1, w_i = theta_i.
    Otherwise (YaRN without magnitude):
    low = max(0, floor(n ln(original / (beta_fast 2 pi)) / (2 ln base))),
    high = min(n - 1, ceil(n ln(original / (beta_slow 2 pi)) / (2 ln base))),
    t = clamp((i - low) / (high - low), 0, 1),
    w_i = theta_i (1 - t) + theta_i / factor * t.
    Constraint: (C1) the last dimension is even.
  }];
  let arguments = (ins StrAttr:$name, F64Attr:$base, F64Attr:$factor,
                       I64Attr:$original, F64Attr:$beta_fast,
                       F64Attr:$beta_slow);
  let results = (outs Ds4_Float:$result);
  let assemblyFormat = [{
    $name `base` $base `factor` $factor `original` $original
    `beta` $beta_fast `,` $beta_slow attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

def Ds4_ReshapeOp : Ds4_Op<"reshape", [Pure]> {
  let summary = "the same values under another shape";
  let description = [{
    Costs nothing: the result is a view of x's buffer and no kernel runs.
    Constraints: (C1) the leading dimension and the number of values agree.
  }];
  let arguments = (ins Ds4_Float:$x);
  let results = (outs Ds4_Float:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

def Ds4_LaunchOp
    : Ds4_Op<"launch", [RecursiveMemoryEffects, NoRegionArguments,
                        SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "ops that one kernel launch does";
  let description = [{
    Means its ops, one after the other: fusing changes where values live and how
    many launches there are, never a bit. `name` says what it is, for traces.

    Ops that are connected inside the launch make a part; parts share nothing
    and run side by side. In a part, the ops that read nothing made inside are
    its heads; they run side by side, each over all its blocks. An op that reads
    no more of a row than one block of a single head writes follows in that
    block. Any other op follows in the block that is the last to finish of the
    part's heads (codegen/LaunchSpec.h).

    Constraints: (C1) only ops that have a kernel of their own, and
    `ds4.reshape`. (C2) results are the yielded values, which are made inside.
    (C3) the name is an identifier. (C4) at most one selection; if a phase has
    several rows, no op beside others takes the step as a whole (grouped
    experts) or does tiles of rows, an op and what it reads inside have one row domain, and no two ops
    touch a cache that one of them writes; if it has one, neither of such two is
    a head.
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $name attr-dict-with-keyword (`:` type($results)^)? $body
  }];
  let extraClassDeclaration = [{
    /// The value inside that `result`, a result of this op, is.
    ::mlir::Value getYielded(::mlir::Value result);
  }];
  let hasVerifier = 1;
}

def Ds4_YieldOp : Ds4_Op<"yield", [Pure, Terminator,
                                   HasParent<"LaunchOp">]> {
  let summary = "what leaves a launch";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins), [{ $_state.addOperands({}); }]>];
}

//===----------------------------------------------------------------------===//
// Embedding, residual streams (manifold-constrained hyper-connections), norms
//===----------------------------------------------------------------------===//

def Ds4_EmbedOp : Ds4_Op<"embed", [Pure]> {
  let summary = "row of the embedding table, copied to every stream";
  let description = [{
    Shapes: tokens[T]; table[V, D]; result[T, M, D]; result[t, m] = table[token].
    Rounding: none, every format is exact in f32.
    Constraints: (C1) D of table and result agree. (C2) result rows = tokens.
  }];
  let arguments = (ins Ds4_Int:$tokens, Ds4_WeightType:$table);
  let results = (outs Ds4_Float:$result);
  let assemblyFormat = "$tokens `,` $table attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Ds4_HcPreOp : Ds4_Op<"hc_pre", [Pure]> {
  let summary = "mixing coefficients of a site and the collapsed input";
  let description = [{
    Shapes: streams X[T, M, D]; fn[(2 + M) M, M D]; scale[3]; base[(2 + M) M];
    x[T, D]; post[T, M]; comb[T, M, M].
    Per row, with f = X flattened stream-major:
    1. r = 1 / sqrt(S / (M D) + eps), S = sum of f_i^2 (strided order).
    2. mix_j = (fn_j . f) * r; the dot product in strided order.
    3. pre_i = sigmoid(fma(mix_i, scale_0, base_i)) + hc_eps;
       post_i = 2 sigmoid(fma(mix_{M+i}, scale_1, base_{M+i}));
       A_jk = fma(mix_{2M+Mj+k}, scale_2, base_{2M+Mj+k}).
    4. Sinkhorn: each row of A: m = max_k A_jk (ascending k), e_k = exp(A_jk - m),
       A_jk = e_k / (((e_0 + e_1) + e_2) + ...) + hc_eps. Then a column step:
       A_jk /= (((A_0k + A_1k) + ...) + hc_eps). Then iterations - 1 times a row
       step A_jk /= (((A_j0 + A_j1) + ...) + hc_eps) and a column step.
       comb = A.
    5. x_e = pre_0 X_0e, then fma(pre_i, X_ie, x_e) for i = 1, 2, ....
    Constraints: (C1) fn is [(2 + M) M, M D]. (C2) scale has 3 and base
    (2 + M) M elements, both f32. (C3) results have the shapes above.
  }];
  let arguments = (ins Ds4_Float:$streams, Ds4_WeightType:$fn,
                       Ds4_WeightType:$scale, Ds4_WeightType:$base,
                       F32Attr:$eps, F32Attr:$hc_eps, I64Attr:$iterations);
  let results = (outs Ds4_Float:$x, Ds4_Float:$post, Ds4_Float:$comb);
  let assemblyFormat = [{
    $streams `,` $fn `,` $scale `,` $base `eps` $eps `,` $hc_eps
    `iterations` $iterations attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Ds4_HcPostOp : Ds4_Op<"hc_post", [Pure]> {
  let summary = "a sublayer's result goes back into the residual streams";
  let description = [{
    Shapes: y[T, D]; streams X[T, M, D]; post[T, M]; comb[T, M, M];
    result[T, M, D].
    result_k = post_k * y, then fma(comb_jk, X_j, .) for j = 0, 1, ...: the sum
    runs over the first index of comb.
    Constraints: (C1) result and streams have one shape, (C2) which fits y,
    post and comb.
  }];
  let arguments = (ins Ds4_Float:$y, Ds4_Float:$streams, Ds4_Float:$post,
                       Ds4_Float:$comb);
  let results = (outs Ds4_Float:$result);
  let assemblyFormat = "$y `,` $streams `,` $post `,` $comb attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Ds4_HeadCollapseOp : Ds4_Op<"head_collapse", [Pure]> {
  let summary = "the residual streams become one vector";
  let description = [{
    Domain outputs. Shapes: streams X[T, M, D]; fn[M, M D]; scale[1]; base[M];
    result[T, D]. r and mix as in hc_pre; g_i = sigmoid(fma(mix_i, scale_0,
    base_i)) + hc_eps; result = g_0 X_0, then fma(g_i, X_i, .) for i = 1, 2, ....
    Constraints: (C1) fn is [M, M D]. (C2) scale has 1 and base M elements,
    both f32. (C3) result is [T, D].
  }];
  let arguments = (ins Ds4_Float:$streams, Ds4_WeightType:$fn,
                       Ds4_WeightType:$scale, Ds4_WeightType:$base,
                       F32Attr:$eps, F32Attr:$hc_eps);
  let results = (outs Ds4_Float:$result);
  let assemblyFormat = [{
    $streams `,` $fn `,` $scale `,` $base `eps` $eps `,` $hc_eps
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Ds4_RmsNormOp : Ds4_Op<"rms_norm", [Pure, SameOperandsAndResultRank]> {
  let summary = "x / sqrt(mean(x^2) + eps), times a gain if there is one";
  let description = [{
    Shapes: x[T, ..., D], result the same; optional weight[D] f32. Each
    innermost vector alone: r = 1 / sqrt(S / D + eps), S = sum of x_i^2 in
    strided order; result_i = (x_i * r) * weight_i, or x_i * r.
    Constraints: (C1) x and result have one shape. (C2) weight is f32 [D].
  }];
  let arguments = (ins Ds4_Float:$x, Optional<Ds4_WeightType>:$weight,
                       F32Attr:$eps, Ds4_RowsOf:$rows);
  let results = (outs Ds4_Float:$result);
  let assemblyFormat = "$x (`,` $weight^)? `eps` $eps attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Linears
//===----------------------------------------------------------------------===//

def Ds4_RotateOp : Ds4_Op<"rotate", [Pure]> {
  let summary = "inputs of rotated experts times the 32-wide Hadamard matrix";
  let description = [{
    Shapes: x[T, k, K]; experts[T, k]; rotations[E]; result as x. If
    rotations[experts[t, i]] is 0, vector (t, i) is copied. Otherwise each of
    its blocks of 32 becomes H times it, H being Sylvester's matrix scaled to be
    orthonormal: ds4.hadamard of 32 values.
    Constraints: (C1) x and result have one shape, experts its first two
    dimensions. (C2) K is a multiple of 32. (C3) rotations has one dimension.
  }];
  let arguments = (ins Ds4_Float:$x, Ds4_Int:$experts, Ds4_Int:$rotations);
  let results = (outs Ds4_Float:$result);
  let assemblyFormat = [{
    $x `experts` $experts `,` $rotations attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Ds4_QuantizeOp
    : Ds4_Op<"quantize", [Pure, AttrSizedOperandSegments]> {
  let summary = "f32 activations to int8, one scale per 32 values";
  let description = [{
    Shapes: x[T, ..., K]; result q8 of the same shape. Per 32 values:
    scale = max|x| / 127 (f32); code = round-half-to-even(x / scale), clamped
    to -127..127; all codes 0 if scale is 0. max|x| compares bit patterns
    (max_abs of ops/numbers.h): a NaN makes the scale NaN and is not lost.
    With experts and rotations, x is replaced by ds4.rotate of the three first.
    Constraints: (C1) x and result have one shape. (C2) experts and rotations
    fit x as in rotate.
  }];
  let arguments = (ins Ds4_Float:$x, Optional<Ds4_Int>:$experts,
                       Optional<Ds4_Int>:$rotations, Ds4_RowsOf:$rows);
  let results = (outs Ds4_Q8Type:$result);
  let assemblyFormat = [{
    $x (`experts` $experts^ `,` $rotations)? attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Ds4_LinearOp : Ds4_Op<"linear", [Pure]> {
  let summary = "y = W x";
  let description = [{
    Shapes: x[T, K] (f32 or q8); weight[N, K]; result[T, N].
    With f32 x: y_n = sum of w_i * x_i, weights decoded exactly to f32, strided
    order. With q8 x: segmented order over the K/32 groups of 32; a group (or
    with two scales of 32 elements each half in turn) adds
    acc = fma(float(I) * s, d, acc), where I is the exact integer sum of weight
    levels times codes, s the weight scale and d the activation scale. Where s
    has four bits, as UE4M3 has, the product is exact. If the format has
    minimums, acc = fma(float(C) * m, d, acc) follows before the next half, C
    being the sum of the codes and m the minimum of the scale.
    How many scales 32 elements have, and s and m where they are not what the
    block stores, is said for each format in docs/reference/formats.md.

    A format with learned books has the operand `books`, in the form of x:
    f32 books for f32 x, i8 books for q8 x (ds4.books). With f32 books w_i is
    level times scale, exact in f32. With i8 books I is the integer sum of the
    int8 levels of the half's book, s the half's scale, times R if that book is
    the second one (exact), and y_n the sum times S (ds4.books).
    Constraints: (C1) K of x and weight agree. (C2) result is [T, N].
    (C3) int8 activations need a block-quantised weight. (C4) the weight has
    two dimensions and a float or quantised format. (C5) a format with learned
    books has books of the shape and form that ds4.books says, with E = 1;
    another has none.
  }];
  let arguments = (ins Ds4_Act:$x, Ds4_WeightType:$weight,
                       Optional<Ds4_Books>:$books, Ds4_RowsOf:$rows);
  let results = (outs Ds4_Float:$result);
  let assemblyFormat = [{
    $x `,` $weight (`books` $books^)? attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Ds4_GroupedLinearOp : Ds4_Op<"grouped_linear", [Pure]> {
  let summary = "a block-diagonal linear: each group of rows has its own input";
  let description = [{
    Shapes: x[T, G, K] (f32 or q8); weight[G N, K]; result[T, G N]. Output row
    g N + n is weight row g N + n times x[t, g]; sums as in linear.
    Constraints: (C1) K agrees. (C2) the weight's rows are a multiple of G and
    the result is [T, G N]. (C3) to (C5) as linear.
  }];
  let arguments = (ins Ds4_Act:$x, Ds4_WeightType:$weight,
                       Optional<Ds4_Books>:$books);
  let results = (outs Ds4_Float:$result);
  let assemblyFormat = [{
    $x `,` $weight (`books` $books^)? attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

def Ds4_RopeOp : Ds4_Op<"rope", [Pure]> {
  let summary = "rotary embedding of the last dimensions, interleaved pairs";
  let description = [{
    Shapes: x[T, ..., d]; table[positions, n]; result as x. The last n values
    of each innermost vector are n/2 pairs (a, b) with (c, s) =
    table[position of the row, pair]; if `inverse`, s = -s:
    a' = fma(a, c, -(b * s)); b' = fma(a, s, b * c). Other values are copied.
    Constraints: (C1) x and result have one shape. (C2) n <= d.
  }];
  let arguments = (ins Ds4_Float:$x, Ds4_Float:$table, UnitAttr:$inverse,
                       Ds4_RowsOf:$rows);
  let results = (outs Ds4_Float:$result);
  let assemblyFormat = "$x `,` $table (`inverse` $inverse^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Ds4_HadamardOp : Ds4_Op<"hadamard", [Pure]> {
  let summary = "orthonormal Walsh-Hadamard transform, natural order";
  let description = [{
    Shapes: x[T, ..., n], result the same. For s = 1, 2, 4, ..., n/2: where
    bit s of i is 0, (x_i, x_{i+s}) becomes (x_i + x_{i+s}, x_i - x_{i+s}).
    Then every value is multiplied by f32(1 / sqrt(n)).
    Constraints: (C1) x and result have one shape. (C2) n is a power of two.
  }];
  let arguments = (ins Ds4_Float:$x, Ds4_RowsOf:$rows);
  let results = (outs Ds4_Float:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Ds4_SimulateOp : Ds4_Op<"simulate", [Pure]> {
  let summary = "the FP8 or FP4 round trip that the model was trained with";
  let description = [{
    Shapes: x[T, ..., d], result the same. The first `width` values of each
    innermost vector, in blocks of 64 (fp8) or 32 (fp4): a = max(max|x|, floor),
    s = 2^ceil(log2(a / top)), x = round(clamp(x / s, -top, top)) * s; the other
    values are copied. fp8: E4M3 (ties to even, subnormals to 2^-9), top 448,
    floor 1e-4. fp4: E2M1 (ties to the even code), top 6, floor 6 * 2^-126.
    ceil(log2) comes from the exponent bits of a / top. max|x| as in quantize;
    a block with a NaN or an infinity becomes all NaN (fp8_exponent,
    fp8_simulate and so on of ops/numbers.h).
    Constraints: (C1) x and result have one shape. (C2) width is a positive
    multiple of the block, at most d.
  }];
  let arguments = (ins Ds4_Float:$x, Ds4_SimulateModeAttr:$mode,
                       I64Attr:$width, Ds4_RowsOf:$rows);
  let results = (outs Ds4_Float:$result);
  let assemblyFormat = "$x $mode `width` $width attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Ds4_RoundRowOp : Ds4_Op<"round_row", [Pure]> {
  let summary = "what a row will be once it has been stored in a cache";
  let description = [{
    Shapes: x[T, d], result the same: each value as it reads back from a state
    of this storage (Ds4_StateType). f16: round to nearest even. fp8: the first
    d - 64 values as simulate fp8, the last 64 rounded to bfloat16. fp4: as
    simulate fp4. Rounding a rounded row changes nothing.
    Constraints: (C1) x and result have one shape. (C2) d fits the storage.
  }];
  let arguments = (ins Ds4_Float:$x, Ds4_RowStorageAttr:$storage,
                       Ds4_RowsOf:$rows);
  let results = (outs Ds4_Float:$result);
  let assemblyFormat = "$x $storage attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Ds4_AppendOp : Ds4_Op<"append"> {
  let summary = "rows of the step go into a cache";
  let description = [{
    Shapes: x[T, d]; state rows x d. Row number n is stored in slot n mod rows;
    of two rows of one step with the same slot only the later is stored. x
    holds values that the storage represents exactly (see round_row), so that
    storing does not round.
    Constraints: (C1) d of x and state agree. (C2) The state has the op's row
    domain.
  }];
  let arguments = (ins Ds4_Float:$x,
                       Arg<Ds4_StateType, "", [MemWrite]>:$state,
                       Ds4_RowsOf:$rows);
  let assemblyFormat = "$x `,` $state attr-dict `:` type($x) `,` type($state)";
  let hasVerifier = 1;
}

def Ds4_ApeAddOp : Ds4_Op<"ape_add", [Pure, Ds4Elementwise]> {
  let summary = "gate + learned embedding of the position inside a window";
  let description = [{
    Shapes: gate[T, C]; ape[R, C]; result[T, C];
    result[t, c] = gate[t, c] + ape[position mod R, c].
    Constraints: (C1) gate and result have one shape. (C2) C of gate and ape
    agree.
  }];
  let arguments = (ins Ds4_Float:$gate, Ds4_WeightType:$ape);
  let results = (outs Ds4_Float:$result);
  let assemblyFormat = "$gate `,` $ape attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Ds4_CompressOp : Ds4_Op<"compress"> {
  let summary = "pool the tokens of every window that the step completes";
  let description = [{
    Shapes: kv, gate[T, C] of the step's tokens (f32, gate with ape);
    kv_ring, gate_ring: the same for earlier tokens, slot = position mod rows;
    result[W, d], domain windows<ratio>. C = d without overlap, 2 d with.
    Window w pools, in this order, with overlap and w > 0 the tokens
    R (w - 1) ... R w - 1 (channels 0..d-1), then the tokens R w ... R w + R - 1
    (channels d..2d-1 with overlap, 0..d-1 without). A token at or after `start`
    is read from kv and gate, an earlier one from the rings. Per channel:
    m = max of the gates (ascending); z = sum of e_t = exp(g_t - m), ascending
    from +0.0; v = fma(e_t, k_t, v), ascending from +0.0; result = v / z.
    Constraints: (C1) kv and gate have one shape, C = d or 2 d. (C2) both rings
    are f32, C wide, and have at least (overlap ? 2 R : R) - 1 rows.
    (C3) result has ceil(T / R) rows.
  }];
  let arguments = (ins Ds4_Float:$kv, Ds4_Float:$gate,
                       Arg<Ds4_StateType, "", [MemRead]>:$kv_ring,
                       Arg<Ds4_StateType, "", [MemRead]>:$gate_ring,
                       I64Attr:$ratio, UnitAttr:$overlap);
  let results = (outs Ds4_Float:$result);
  let assemblyFormat = [{
    $kv `,` $gate `,` $kv_ring `,` $gate_ring `ratio` $ratio
    (`overlap` $overlap^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Ds4_IndexScoreOp : Ds4_Op<"index_score"> {
  let summary = "how much a query wants each compressed row";
  let description = [{
    Shapes: q[T, H, n]; weights u[T, H]; keys: state rows x n; result[T, rows].
    For row w < visible = floor((position + 1) / ratio):
    result = sum over h ascending, from +0.0, of
    fma(u_h * scale, max(q_h . key_w, 0), .); the dot product in segmented
    order. A NaN product stays one, so that top_k reports it. Rows that are not
    visible are unspecified; if visible <= top_k nothing is computed (top_k
    takes every row).
    Constraints: (C1) n of q and keys agree. (C2) u is [T, H]. (C3) result is
    [T, rows of keys].
  }];
  let arguments = (ins Ds4_Float:$q, Ds4_Float:$weights,
                       Arg<Ds4_StateType, "", [MemRead]>:$keys,
                       F32Attr:$scale, I64Attr:$ratio, I64Attr:$top_k);
  let results = (outs Ds4_Float:$result);
  let assemblyFormat = [{
    $q `,` $weights `,` $keys `scale` $scale `ratio` $ratio `top_k` $top_k
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Ds4_TopKOp : Ds4_Op<"top_k", [Pure]> {
  let summary = "the k visible rows with the highest scores, ascending by row";
  let description = [{
    Shapes: scores[T, rows]; result[T, k]. With visible as in index_score: if
    visible <= k, result[i] = i for i < visible. Otherwise the k best by higher
    score, then lower row (-0 equals +0), listed by ascending row. Entries past
    min(visible, k) are unspecified. A NaN score is an error of this op.
    Constraints: (C1) result is i32 [T, k].
  }];
  let arguments = (ins Ds4_Float:$scores, I64Attr:$k, I64Attr:$ratio);
  let results = (outs Ds4_Int:$result);
  let assemblyFormat = "$scores `k` $k `ratio` $ratio attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Ds4_AttendOp : Ds4_Op<"attend", [AttrSizedOperandSegments]> {
  let summary = "softmax attention of all heads over one latent per row";
  let description = [{
    Shapes: q[T, H, d]; kv[T, d]: rows of the step's own tokens; ring: state of
    d wide raw rows of earlier tokens, slot = position mod rows; sinks[H] f32;
    optionally compressed: state of d wide rows, with `ratio` R; optionally
    selected[T, k] i32: which of them. result[T, H, d]. K = V = the row.
    Row list of a query at position p, in this order:
    1. raw positions max(0, p - window + 1) ... p (from kv if >= start, else
       from the ring), cut into tiles at absolute multiples of 32 positions;
    2. with compressed: list entries 0 .. n - 1 with visible =
       floor((p + 1) / R); without selected n = visible and entry j is row j;
       with selected n = min(visible, k) and entry j is row selected[t, j]; cut
       into tiles at multiples of 32 entries.
    A tile, per head: s_r = (q_h . K_r) * scale, dot product in segmented
    order; m = max s_r (ascending); e_r = exp(s_r - m); z = sum of e_r and
    o_i = sum of fma(e_r, K_ri, o_i), both ascending from +0.0.
    Merging, from (m, z, o) = (sink_h, 1, 0), tiles in order:
    m' = max(m, m_tile); a = exp(m - m'); b = exp(m_tile - m');
    z = fma(z_tile, b, z * a); o_i = fma(o_tile_i, b, o_i * a).
    result = o_i / z.
    Constraints: (C1) q and result have one shape, kv is [T, d]. (C2) the ring
    is d wide with at least window - 1 rows. (C3) sinks is f32 [H].
    (C4) compressed and ratio > 0 come together, compressed is d wide;
    selected needs compressed.
  }];
  let arguments = (ins Ds4_Float:$q, Ds4_Float:$kv,
                       Arg<Ds4_StateType, "", [MemRead]>:$ring,
                       Ds4_WeightType:$sinks,
                       Arg<Optional<Ds4_StateType>, "", [MemRead]>:$compressed,
                       Optional<Ds4_Int>:$selected,
                       I64Attr:$window, I64Attr:$ratio, F32Attr:$scale);
  let results = (outs Ds4_Float:$result);
  let assemblyFormat = [{
    $q `,` $kv `,` $ring `,` $sinks (`compressed` $compressed^)?
    (`selected` $selected^)? `window` $window `ratio` $ratio `scale` $scale
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Mixture of experts
//===----------------------------------------------------------------------===//

def Ds4_RouteOp : Ds4_Op<"route", [Pure]> {
  let summary = "choose experts by biased score, weigh them by score";
  let description = [{
    Shapes: logits[T, E]; bias[E] f32; experts[T, k] i32; weights[T, k].
    s_e = sqrt(softplus(logit_e)). experts = the k best by s_e + bias_e: higher
    first, then lower index (-0 equals +0), in that order. sum = s of the chosen,
    added in selection order from +0.0; weight_i = (s_i / max(sum, 2^-14)) *
    scale. A NaN logit is an error of this op.
    Constraints: (C1) bias is f32 [E]. (C2) results are [T, k], k <= E.
  }];
  let arguments = (ins Ds4_Float:$logits, Ds4_WeightType:$bias,
                       F32Attr:$scale);
  let results = (outs Ds4_Int:$experts, Ds4_Float:$weights);
  let assemblyFormat = "$logits `,` $bias `scale` $scale attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Ds4_HashRouteOp : Ds4_Op<"hash_route", [Pure]> {
  let summary = "experts from a table by token id, weighed by score";
  let description = [{
    Shapes: logits[T, E]; tokens[T]; table[V, n] i32; experts[T, k] i32;
    weights[T, k]; k <= n. s_e as in route. If k = n the experts are the table
    row in its order; otherwise the k of the row with the highest s (then lower
    expert number, -0 equals +0), in that order. Weights as in route. A NaN
    logit is an error of this op.
    Constraints: (C1) tokens is [T], table is i32 [V, n]. (C2) results are
    [T, k], k <= n.
  }];
  let arguments = (ins Ds4_Float:$logits, Ds4_Int:$tokens,
                       Ds4_WeightType:$table, F32Attr:$scale);
  let results = (outs Ds4_Int:$experts, Ds4_Float:$weights);
  let assemblyFormat = "$logits `,` $tokens `,` $table `scale` $scale attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Ds4_GroupPairsOp : Ds4_Op<"group_pairs", [Pure]> {
  let summary = "pairs of token and expert, by expert";
  let description = [{
    Shapes: experts[T, k], each below `count`; result i32 [T, k]. Pair t k + i is
    token t with experts[t, i]. The result, read as one vector, lists the pairs
    of the step by ascending expert, those of one expert in ascending order: a
    stable counting sort. Its rows belong to no token.
    Constraints: (C1) result has the shape of experts. (C2) count is positive.
  }];
  let arguments = (ins Ds4_Int:$experts, I64Attr:$count);
  let results = (outs Ds4_Int:$result);
  let assemblyFormat = "$experts `of` $count attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Ds4_ExpertGateUpOp
    : Ds4_Op<"expert_gate_up", [Pure, AttrSizedOperandSegments]> {
  let summary = "gate and up products of the chosen experts";
  let description = [{
    Shapes: x[T, K] (f32 or q8); experts[T, k]; gate, up[E, F, K]; optional
    gate_books, up_books of E experts; results[T, k, F]. Row (t, i) is
    weight[experts[t, i]] times x[t]; sums and books as in linear. Optional
    pairs of ds4.group_pairs say in which order a kernel does them, so that an
    expert is read once a step; they change no value.
    Constraints: (C1) gate and up have one type, [E, F, K]. (C2) results are
    [T, k, F]. (C3) a format with learned books has books of the shape and form
    that ds4.books says, in the form of x; another has none. (C4) pairs have the
    type of experts.
  }];
  let arguments = (ins Ds4_Act:$x, Ds4_Int:$experts, Ds4_WeightType:$gate,
                       Ds4_WeightType:$up, Optional<Ds4_Books>:$gate_books,
                       Optional<Ds4_Books>:$up_books,
                       Optional<Ds4_Int>:$pairs);
  let results = (outs Ds4_Float:$gate_out, Ds4_Float:$up_out);
  let assemblyFormat = [{
    $x `,` $experts `,` $gate `,` $up
    (`books` $gate_books^ `,` $up_books)? (`pairs` $pairs^)? attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Ds4_SwigluOp
    : Ds4_Op<"swiglu", [Pure, Ds4Elementwise, SameOperandsAndResultType]> {
  let summary = "silu(min(gate, limit)) * clamp(up, -limit, limit)";
  let description = [{
    Elementwise: g = gate > limit ? limit : gate; u = up clamped to
    [-limit, limit]; result = (g * sigmoid(g)) * u.
    Constraints: (C1) limit is positive.
  }];
  let arguments = (ins Ds4_Float:$gate, Ds4_Float:$up, F32Attr:$limit);
  let results = (outs Ds4_Float:$result);
  let assemblyFormat = "$gate `,` $up `limit` $limit attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Ds4_ExpertDownOp
    : Ds4_Op<"expert_down", [Pure, AttrSizedOperandSegments]> {
  let summary = "down product of the chosen experts";
  let description = [{
    Shapes: h[T, k, F] (f32 or q8); experts[T, k]; weight[E, D, F]; optional
    books of E experts; result[T, k, D]. Row (t, i) is weight[experts[t, i]]
    times h[t, i]; sums, books and pairs as in expert_gate_up.
    Constraints: (C1) F agrees, weight is [E, D, F]. (C2) result is [T, k, D].
    (C3), (C4) as expert_gate_up.
  }];
  let arguments = (ins Ds4_Act:$h, Ds4_Int:$experts, Ds4_WeightType:$weight,
                       Optional<Ds4_Books>:$books, Optional<Ds4_Int>:$pairs);
  let results = (outs Ds4_Float:$result);
  let assemblyFormat = [{
    $h `,` $experts `,` $weight (`books` $books^)? (`pairs` $pairs^)? attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Ds4_CombineOp : Ds4_Op<"combine", [Pure, Ds4Elementwise]> {
  let summary = "weighted experts in selection order, shared expert last";
  let description = [{
    Shapes: y[T, k, D]; weights[T, k]; shared[T, D]; result[T, D].
    result = weights_0 * y_0, then fma(weights_i, y_i, .) for i = 1, 2, ...,
    then + shared.
    Constraints: (C1) y is [T, k, D]. (C2) weights is [T, k], shared and
    result [T, D].
  }];
  let arguments = (ins Ds4_Float:$y, Ds4_Float:$weights, Ds4_Float:$shared);
  let results = (outs Ds4_Float:$result);
  let assemblyFormat = "$y `,` $weights `,` $shared attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

def Ds4_TakeOutputsOp : Ds4_Op<"take_outputs", [Pure]> {
  let summary = "the streams of the tokens that need logits";
  let description = [{
    Shapes: x[T, ...]; result[L, ...], domain outputs: row i is row
    count - outputs + i of x.
    Constraints: (C1) all but the leading dimension agree, L <= T.
  }];
  let arguments = (ins Ds4_Float:$x);
  let results = (outs Ds4_Float:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Ds4_ArgmaxOp : Ds4_Op<"argmax", [Pure]> {
  let summary = "index of the greatest logit, the lowest of equals";
  let description = [{
    Domain outputs. Shapes: logits[L, V]; result[L] i32. -0 equals +0. A NaN
    logit is an error of this op.
    Constraints: (C1) result is [L].
  }];
  let arguments = (ins Ds4_Float:$logits);
  let results = (outs Ds4_Int:$result);
  let assemblyFormat = "$logits attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Ds4_TraceOp : Ds4_Op<"trace", [MemoryEffects<[MemWrite]>]> {
  let summary = "name an activation so that it can be compared with a dump";
  let description = [{
    Has no effect on results. The plan lists the value's buffer under this
    name; `ds4run --check` copies it when the step reaches this point. Counts
    as a write, since an op without results that only reads would be erased.
  }];
  let arguments = (ins StrAttr:$name, Ds4_Float:$x, Ds4_RowsOf:$rows);
  let assemblyFormat = "$name `,` $x attr-dict `:` type($x)";
}

def Ds4_ObserveOp : Ds4_Op<"observe", [MemoryEffects<[MemWrite]>]> {
  let summary = "name the input of a linear, for an importance matrix";
  let description = [{
    Has no effect on results. The plan lists the buffer of `x` under the name
    of `weight`; `ds4run --collect-imatrix` sums the squares of its columns. A
    row of `x` is one or more vectors of K elements, K being the row elements
    of the weight. With `experts` [T, k] the weight is [E, N, K], and `x` is
    [T, K], which all chosen experts read, or [T, k, K], a vector for each.

    Reads `x` and `experts` where it stands: a pass that fuses their producer
    with the linear must leave them in memory, or leave the op alone. Counts as
    a write, since an op without results that only reads would be erased.

    Constraints: (C1) elements of a row of `x` are a multiple of K. (C2) a
    weight of three dimensions has `experts`, another has none. (C3) with
    `experts`, the shape of `x` is as above.
  }];
  let arguments = (ins Ds4_Float:$x, Ds4_WeightType:$weight,
                       Optional<Ds4_Int>:$experts, Ds4_RowsOf:$rows);
  let assemblyFormat = [{
    $x `,` $weight (`experts` $experts^)? attr-dict `:` type(operands)
  }];
  let hasVerifier = 1;
}

#endif // DS4_IR_OPS
