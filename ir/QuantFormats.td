//===- QuantFormats.td - storage formats of weights --------*- tablegen -*-===//
//
// One record a format. ds4-tblgen turns them into the type table, the device
// decoders' constants, the oracle's layouts and docs/reference/formats.md
// (build the target `formats`). What a record cannot say, how scales inside a
// super-block are packed, is in ops/weights/<name>.h and ops/weights_ref.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef DS4_IR_QUANTFORMATS
#define DS4_IR_QUANTFORMATS

include "QuantGrids.td"

/// Where some bits of every code are. Elements come in periods of `period`;
/// the bytes of a period hold element 0, 1, ... in their lowest bits, then the
/// next elements in the next higher bits: element i of a period of B bytes is
/// at bit codeBits * (i / B) of byte i % B. Period 0: a bit stream, element i at
/// bits codeBits * i and up, from the lowest bit of the first byte.
class Plane<int offset_, int bits_, int period_> {
  int offset = offset_; // of the first byte in a block
  int codeBits = bits_;
  int period = period_;
}
class Stream<int offset_, int bits_> : Plane<offset_, bits_, 0>;
class Int8<int offset_> : Plane<offset_, 8, 1>;

/// The numbers that codes stand for.
class Levels;
/// code - zero; codes of 8 bits are two's complement.
class Integers<int zero_> : Levels {
  int zero = zero_;
}
/// values[code].
class Table<list<int> values_> : Levels {
  list<int> values = values_;
}
/// Entries of a grid, with signs beside them; not codes of single elements.
class Gridded<Grid grid_> : Levels {
  Grid grid = grid_;
}
/// One of two books of `count` levels that lie outside the tensor.
class Books<int count_> : Levels {
  int count = count_;
}

/// Encodings of the scales at `offset` in a block.
class Scales<string kind_, int offset_, int count_> {
  string kind = kind_; // an enumerator of ds4::ScaleKind
  int offset = offset_;
  int count = count_;
}

class WeightFormat<int id_, int elements_, int bytes_> {
  int id = id_; // GGUF type
  int reading = 0; // above 0: a meaning of the id that must be asked for
  int elements = elements_; // of a block
  int bytes = bytes_;
  int rowMultiple = elements_; // legal row lengths
  Scales scales = Scales<"none", 0, 0>;
  list<Plane> planes = []; // lowest bits of a code first
  Levels levels = ?;
  int scalesPer32 = 0; // scales that 32 elements have, 1 or 2
  bit minimums = false; // every scale has an offset that is added
  string note = ""; // for the documentation
}

// Numbers.
class Plain<int id, int bytes> : WeightFormat<id, 1, bytes>;
def f32 : Plain<0, 4> { let note = "IEEE binary32"; }
def f16 : Plain<1, 2> { let note = "IEEE binary16"; }
def i32 : Plain<26, 4> { let note = "tables of expert numbers"; }
def bf16 : Plain<30, 2> { let note = "upper half of a binary32"; }

//===----------------------------------------------------------------------===//
// ggml
//===----------------------------------------------------------------------===//

def q8_0 : WeightFormat<8, 32, 34> {
  let scales = Scales<"f16", 0, 1>;
  let planes = [Int8<2>];
  let levels = Integers<0>;
  let scalesPer32 = 1;
}

def q6_K : WeightFormat<14, 256, 210> {
  let scales = Scales<"f16", 208, 1>;
  let planes = [Plane<0, 4, 128>, Plane<128, 2, 128>];
  let levels = Integers<32>;
  let scalesPer32 = 2;
  let note = "16 int8 at byte 192: s = d int8";
}

//===----------------------------------------------------------------------===//
// ROCmFPX
//===----------------------------------------------------------------------===//

defvar fp3Levels = [0, 1, 2, 4, 0, -1, -2, -4];
defvar fp4Levels = [0, 1, 2, 3, 4, 6, 8, 10, 0, -1, -2, -3, -4, -6, -8, -10];

def q4_0_rocmfp4_fast : WeightFormat<101, 32, 17> {
  let scales = Scales<"ue4m3", 16, 1>;
  let planes = [Plane<0, 4, 32>];
  let levels = Table<fp4Levels>;
  let scalesPer32 = 1;
}

def q3_0_rocmfpx : WeightFormat<104, 32, 14> {
  let scales = Scales<"ue4m3", 12, 2>;
  let planes = [Stream<0, 3>];
  let levels = Table<fp3Levels>;
  let scalesPer32 = 2;
}

def q3_1_rocmfp3_mix : WeightFormat<105, 32, 14> {
  let scales = Scales<"ue4m3Book", 12, 2>;
  let planes = [Stream<0, 3>];
  let levels = Books<8>;
  let scalesPer32 = 2;
}

def q2_1_rocmfp2_mix : WeightFormat<106, 32, 10> {
  let rowMultiple = 128;
  let scales = Scales<"ue4m3Book", 8, 2>;
  let planes = [Stream<0, 2>];
  let levels = Books<4>;
  let scalesPer32 = 2;
}

def q2_0_rocmfp2 : WeightFormat<107, 32, 10> {
  let scales = Scales<"ue4m3", 8, 2>;
  let planes = [Stream<0, 2>];
  let levels = Integers<1>;
  let scalesPer32 = 2;
  let note = "dual reading";
}

#endif // DS4_IR_QUANTFORMATS
