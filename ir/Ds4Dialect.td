//===- Ds4Dialect.td - the ds4 dialect ---------------------*- tablegen -*-===//
//
// What the dialect is, and the vocabulary that every op description uses:
// the step, row domains, and the two declared orders of sums.
//
//===----------------------------------------------------------------------===//

#ifndef DS4_IR_DIALECT
#define DS4_IR_DIALECT

include "mlir/IR/OpBase.td"

def Ds4_Dialect : Dialect {
  let name = "ds4";
  let cppNamespace = "::ds4::ir";
  let summary = "The forward pass of DeepSeek V4, one op an idea of the paper";
  let description = [{
    A function of this dialect is one *phase* (prefill, decode, verify) with a
    static token capacity T. At run time a call processes one **step**: the
    tokens `start, start + 1, ..., start + count - 1` of one sequence, with
    `count <= T`. `start`, `count` and `outputs` (how many of the last tokens
    need logits) are read from a device buffer, so that one captured graph
    serves every step; ops use them implicitly.

    ### Row domains
    The leading dimension of an activation is its row dimension. Which rows
    exist in a step, and at which position of the sequence a row stands, is
    the op's `rows` attribute:

    | domain | rows in a step | row i is number | position of row i |
    |---|---|---|---|
    | `tokens` | count | start + i | start + i |
    | `windows<R>` | floor((start + count) / R) - floor(start / R) | floor(start / R) + i | number * R |
    | `outputs` | outputs | count - outputs + i of the step | - |

    `windows<R>` are the compressor windows that the step completes. Rows past
    the end are never read: their contents are unspecified.

    ### Declared orders of sums
    Every sum of floats has one order, so that every kernel of an op gives the
    same bits. Two orders have names; `fma(a, b, c)` rounds once.

    * **strided order** (norms, statistics, float linears): term i is added to
      partial sum i mod 256 with fma, ascending i, from +0.0. Partials
      l, l + 32, ..., l + 224 are added as the balanced tree
      ((0+1)+(2+3))+((4+5)+(6+7)); the 32 sums are added by lane xor
      1, 2, 4, 8, 16.
    * **segmented order** (quantised linears, dot products of attention and
      indexer): the n terms (blocks of 32 for quantised linears, elements
      otherwise) are cut into 8 contiguous segments; segment s holds terms
      floor(s n / 8) up to, not including, floor((s + 1) n / 8). Within a
      segment terms are added ascending with fma from +0.0. The 8 segment sums
      are added as ((0+1)+(2+3))+((4+5)+(6+7)). An empty segment is +0.0.

    exp, log1p, sigmoid, softplus are the fixed sequences of
    `ops/numbers.h`. Division and square root are correctly rounded.
    max(a, b) is `a > b ? a : b`.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerTypes();
    void registerAttributes();
  }];
}

#endif // DS4_IR_DIALECT
