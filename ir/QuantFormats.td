//===- QuantFormats.td - storage formats of weights --------*- tablegen -*-===//
//
// One record a format. ds4-tblgen turns them into the type table, the device
// decoders' constants, the layouts that the oracle and the encoders share, and
// docs/reference/formats.md (build the target `formats`). What a record cannot say, how scales inside a
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
/// The highest bit of a code is its sign, the others its magnitude.
class SignMagnitude : Levels;
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

def q4_0 : WeightFormat<2, 32, 18> {
  let scales = Scales<"f16", 0, 1>;
  let planes = [Plane<2, 4, 32>];
  let levels = Integers<8>;
  let scalesPer32 = 1;
}

def q4_1 : WeightFormat<3, 32, 20> {
  let scales = Scales<"f16", 0, 2>;
  let planes = [Plane<4, 4, 32>];
  let levels = Integers<0>;
  let scalesPer32 = 1;
  let minimums = true;
  let note = "d, m";
}

def q5_0 : WeightFormat<6, 32, 22> {
  let scales = Scales<"f16", 0, 1>;
  let planes = [Plane<6, 4, 32>, Stream<2, 1>];
  let levels = Integers<16>;
  let scalesPer32 = 1;
}

def q5_1 : WeightFormat<7, 32, 24> {
  let scales = Scales<"f16", 0, 2>;
  let planes = [Plane<8, 4, 32>, Stream<4, 1>];
  let levels = Integers<0>;
  let scalesPer32 = 1;
  let minimums = true;
  let note = "d, m";
}

def q8_0 : WeightFormat<8, 32, 34> {
  let scales = Scales<"f16", 0, 1>;
  let planes = [Int8<2>];
  let levels = Integers<0>;
  let scalesPer32 = 1;
}

def q2_K : WeightFormat<10, 256, 84> {
  let scales = Scales<"f16", 80, 2>;
  let planes = [Plane<16, 2, 128>];
  let levels = Integers<0>;
  let scalesPer32 = 2;
  let minimums = true;
  let note = "d, dmin; 16 bytes at byte 0: s = d low nibble, "
             "m = -dmin high nibble";
}

def q3_K : WeightFormat<11, 256, 110> {
  let scales = Scales<"f16", 108, 1>;
  let planes = [Plane<32, 2, 128>, Plane<0, 1, 256>];
  let levels = Integers<4>;
  let scalesPer32 = 2;
  let note = "16 of 6 bits at byte 96: s = d (bits - 32)";
}

// Eight pairs of 6 bits in 12 bytes at byte 4.
class KPairs<int id, int bytes> : WeightFormat<id, 256, bytes> {
  let scales = Scales<"f16", 0, 2>;
  let levels = Integers<0>;
  let scalesPer32 = 1;
  let minimums = true;
  let note = "d, dmin; 8 pairs of 6 bits at byte 4: s = d bits, m = -dmin bits";
}

def q4_K : KPairs<12, 144> {
  let planes = [Plane<16, 4, 64>];
}

def q5_K : KPairs<13, 176> {
  let planes = [Plane<48, 4, 64>, Plane<16, 1, 256>];
}

def q6_K : WeightFormat<14, 256, 210> {
  let scales = Scales<"f16", 208, 1>;
  let planes = [Plane<0, 4, 128>, Plane<128, 2, 128>];
  let levels = Integers<32>;
  let scalesPer32 = 2;
  let note = "16 int8 at byte 192: s = d int8";
}

def iq2_xxs : WeightFormat<16, 256, 66> {
  let scales = Scales<"f16", 0, 1>;
  let levels = Gridded<iq2xxs_grid>;
  let scalesPer32 = 1;
  let note = "32 elements in 8 bytes: 4 indices, then a word of 4 times 7 bits "
             "of signs and 4 bits c: s = d (2c + 1) / 8";
}

def iq3_xxs : WeightFormat<18, 256, 98> {
  let scales = Scales<"f16", 0, 1>;
  let levels = Gridded<iq3xxs_grid>;
  let scalesPer32 = 1;
  let note = "64 indices, then words as in iq2_xxs: s = d (2c + 1) / 4";
}

defvar iq4Levels = [-127, -104, -83, -65, -49, -35, -22, -10,
                    1, 13, 25, 38, 53, 69, 89, 113];

def iq4_nl : WeightFormat<20, 32, 18> {
  let scales = Scales<"f16", 0, 1>;
  let planes = [Plane<2, 4, 32>];
  let levels = Table<iq4Levels>;
  let scalesPer32 = 1;
}

def iq3_s : WeightFormat<21, 256, 110> {
  let scales = Scales<"f16", 0, 1>;
  let levels = Gridded<iq3s_grid>;
  let scalesPer32 = 1;
  let note = "64 indices, 8 bytes of their ninth bits, 32 bytes of signs, 8 "
             "nibbles c: s = d (2c + 1)";
}

def iq4_xs : WeightFormat<23, 256, 136> {
  let scales = Scales<"f16", 0, 1>;
  let planes = [Plane<8, 4, 32>];
  let levels = Table<iq4Levels>;
  let scalesPer32 = 1;
  let note = "8 of 6 bits: high pairs at byte 2, low nibbles at byte 4: "
             "s = d (bits - 32)";
}

def mxfp4 : WeightFormat<39, 32, 17> {
  let scales = Scales<"e8m0", 0, 1>;
  let planes = [Plane<1, 4, 32>];
  let levels = Table<[0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]>;
  let scalesPer32 = 1;
  let note = "s = 2^(e - 128): levels are doubled";
}

//===----------------------------------------------------------------------===//
// ROCmFPX
//===----------------------------------------------------------------------===//

defvar fp3Levels = [0, 1, 2, 4, 0, -1, -2, -4];
defvar fp4Levels = [0, 1, 2, 3, 4, 6, 8, 10, 0, -1, -2, -3, -4, -6, -8, -10];

def q4_0_rocmfp4 : WeightFormat<100, 32, 18> {
  let scales = Scales<"ue4m3", 16, 2>;
  let planes = [Plane<0, 4, 32>];
  let levels = Table<fp4Levels>;
  let scalesPer32 = 2;
}

def q4_0_rocmfp4_fast : WeightFormat<101, 32, 17> {
  let scales = Scales<"ue4m3", 16, 1>;
  let planes = [Plane<0, 4, 32>];
  let levels = Table<fp4Levels>;
  let scalesPer32 = 1;
}

def q6_0_rocmfpx : WeightFormat<102, 32, 26> {
  let scales = Scales<"ue4m3", 24, 2>;
  let planes = [Stream<0, 6>];
  let levels = SignMagnitude<>;
  let scalesPer32 = 2;
}

def q8_0_rocmfpx : WeightFormat<103, 32, 33> {
  let scales = Scales<"ue4m3", 32, 1>;
  let planes = [Int8<0>];
  let levels = Integers<0>;
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
  let note = "reading dual";
}

// Other readings of the same bytes (--fp2).
def q2_0_rocmfp2_affine : WeightFormat<107, 32, 10> {
  let reading = 1;
  let scales = Scales<"ue4m3", 8, 2>;
  let planes = [Stream<0, 2>];
  let levels = Integers<0>;
  let scalesPer32 = 1;
  let minimums = true;
  let note = "reading affine: s = first scale, m = -second";
}

def q2_0_rocmfp2_fp2s : WeightFormat<107, 32, 10> {
  let reading = 2;
  let scales = Scales<"ue4m3Sign", 8, 2>;
  let planes = [Stream<0, 2>];
  let levels = Integers<1>;
  let scalesPer32 = 2;
  let note = "reading fp2s: bit 7 of a scale byte negates the levels";
}

def q2_0_rocmfp2_s40 : WeightFormat<111, 32, 10> {
  let scales = Scales<"ue4m3", 8, 2>;
  let planes = [Stream<0, 2>];
  let levels = Table<[-4, -1, 1, 4]>;
  let scalesPer32 = 2;
  let note = "also a reading of 107: s40";
}

#endif // DS4_IR_QUANTFORMATS
