//===- Ds4Types.td - types and attributes of the ds4 dialect -*- tablegen -*-===//
//
// Activations are builtin tensors (f32, i32). The types here are what a tensor
// cannot say: weights with their storage format, int8 activations, states.
//
//===----------------------------------------------------------------------===//

#ifndef DS4_IR_TYPES
#define DS4_IR_TYPES

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "Ds4Dialect.td"

class Ds4_Type<string name, string typeMnemonic>
    : TypeDef<Ds4_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Ds4_WeightType : Ds4_Type<"Weight", "weight"> {
  let summary = "a tensor of the model file in its storage format";
  let description = [{
    `!ds4.weight<1024x256xq8_0>`: shape in row-major order (outermost first,
    the reverse of GGUF's), then the storage format by its GGUF type name
    (`runtime/WeightFormats.h`). A row is contiguous: whole blocks, in the
    file's own layout. `!ds4.weight<1024x256xq8_0, lanes>`: in device memory
    the bytes of a row lie as `runtime/WeightLayout.h` says. A layout changes
    no value; kernels of products with int8 activations know `lanes`, all
    others only the file's.

    Constraints: (C1) 1 to 4 dimensions, all positive. (C2) the innermost
    dimension is a multiple of the format's row multiple. (C3) a row in layout
    `lanes` has 8 segments of whole blocks of a block-quantised format.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape,
                        "::ds4::WeightFormat":$format,
                        "::ds4::WeightLayout":$layout);
  let builders = [TypeBuilder<(ins "::llvm::ArrayRef<int64_t>":$shape,
                                   "::ds4::WeightFormat":$format), [{
    return $_get($_ctxt, shape, format, ::ds4::WeightLayout::file);
  }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getRank() const { return getShape().size(); }
    /// Elements of a row (the innermost dimension).
    int64_t getRowElements() const { return getShape().back(); }
    int64_t getNumElements() const;
    /// Bytes of the whole tensor in the file.
    uint64_t getBytes() const;
    /// Bytes in device memory, of a row and of the whole tensor.
    uint64_t getDeviceRowBytes() const;
    uint64_t getDeviceBytes() const;
    WeightType withLayout(::ds4::WeightLayout layout) const {
      return get(getContext(), getShape(), getFormat(), layout);
    }
    bool isQuantised() const;
    /// Levels of a learned codebook, 0 if the format has none.
    unsigned getBookLevels() const;
  }];
}

def Ds4_Q8Type : Ds4_Type<"Q8", "q8"> {
  let summary = "int8 activations with one f32 scale per 32 values";
  let description = [{
    `!ds4.q8<1x256>`: leading dimensions as in the float tensor; the last is
    quantised. In memory a row of K values is K int8 codes, then K/32 f32
    scales; rows are contiguous.

    Constraints: (C1) every dimension is positive. (C2) the last dimension is a
    multiple of 32.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Bytes of a row: K + K/32*4.
    uint64_t getRowBytes() const {
      return getShape().back() + getShape().back() / 32 * 4;
    }
  }];
}

def Ds4_RowStorage : I32EnumAttr<"RowStorage", "how a cached row is stored", [
    I32EnumAttrCase<"f32", 0>, I32EnumAttrCase<"f16", 1>,
    I32EnumAttrCase<"fp8", 2>, I32EnumAttrCase<"fp4", 3>]> {
  let cppNamespace = "::ds4::ir";
  let genSpecializedAttr = 0;
}

def Ds4_StateType : Ds4_Type<"State", "state"> {
  let summary = "rows of a cache, addressed by their number modulo the rows";
  let description = [{
    `!ds4.state<256x512xfp8>`: rows, width, storage. Row number n of the
    sequence lives in slot `n mod rows`: a ring where rows is smaller than
    the context, an array otherwise. Storage of a row of `width` values:

    | storage | bytes of a row | layout |
    |---|---|---|
    | `f32` | 4 width | values |
    | `f16` | 2 width | IEEE binary16 |
    | `fp8` | (width - 64) + 128 + (width - 64) / 64, rounded up to 16 | E4M3 codes of the first width - 64 values; bfloat16 of the last 64; then one exponent byte a block of 64 codes: scale = 2^(byte - 127) |
    | `fp4` | width / 2 + width / 32, rounded up to 4 | E2M1 codes, value 2j in the low nibble and 2j + 1 in the high nibble of byte j; then one exponent byte a block of 32 |

    Codes and exponent bytes are those of the stored values themselves, which
    are rounded already (ds4.round_row): the scale may be half of the one that
    rounded them, the values are the same.

    Constraints: (C1) rows and width are positive. (C2) for fp8,
    width - 64 is a positive multiple of 64; for fp4, width is a multiple of 32.
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$width,
                        "::ds4::ir::RowStorage":$storage);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    uint64_t getRowBytes() const;
    uint64_t getBytes() const { return getRows() * getRowBytes(); }
  }];
}

def Ds4_RowsAttr : AttrDef<Ds4_Dialect, "Rows"> {
  let mnemonic = "rows";
  let summary = "the row domain of an activation";
  let description = [{
    `#ds4.rows<tokens>`, `#ds4.rows<windows 4>`, `#ds4.rows<outputs>`; see the
    dialect's description. `ratio` is 1 for tokens, R >= 2 for windows and 0
    for outputs; kernels get it as the constant `kRatio`.
  }];
  let parameters = (ins "int64_t":$ratio);
  let constBuilderCall =
      "::ds4::ir::RowsAttr::get($_builder.getContext(), $0)";
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static RowsAttr tokens(::mlir::MLIRContext *context) {
      return get(context, 1);
    }
    static RowsAttr outputs(::mlir::MLIRContext *context) {
      return get(context, 0);
    }
    static RowsAttr windows(::mlir::MLIRContext *context, int64_t ratio) {
      return get(context, ratio);
    }
  }];
}

def Ds4_SimulateMode : I32EnumAttr<"SimulateMode",
    "which activation-quantisation round trip", [
    I32EnumAttrCase<"fp8", 0>, I32EnumAttrCase<"fp4", 1>]> {
  let cppNamespace = "::ds4::ir";
  let genSpecializedAttr = 0;
}
def Ds4_SimulateModeAttr
    : EnumAttr<Ds4_Dialect, Ds4_SimulateMode, "simulate_mode">;
def Ds4_RowStorageAttr
    : EnumAttr<Ds4_Dialect, Ds4_RowStorage, "row_storage">;

// Operand and result constraints used by the ops.
def Ds4_Float : RankedTensorOf<[F32]>;
def Ds4_Int : RankedTensorOf<[I32]>;
def Ds4_Act : AnyTypeOf<[Ds4_Float, Ds4_Q8Type],
    "f32 tensor or int8 activations">;
def Ds4_Books : RankedTensorOf<[F32, I8]>;

#endif // DS4_IR_TYPES
