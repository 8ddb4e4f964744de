// Decode tables: the published test blobs with their expected verdicts, and
// where the tables are looked for.
#include "runtime/DecodeTables.h"
#include "runtime/GgufWriter.h"
#include "runtime/test/DecodeTableModels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

using namespace ds4;
using namespace ds4::test;
using enum WeightFormat;
using testing::HasSubstr;

namespace {

std::vector<uint8_t> readBlob(const std::string &name) {
  std::ifstream file(DS4_SOURCE_DIR "/runtime/test/data/sidecar/" + name,
                     std::ios::binary);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

DecodeTableKind kindOf(std::string_view blob) {
  return blob.starts_with("p4mix")   ? DecodeTableKind::p4mix
         : blob.starts_with("gumix") ? DecodeTableKind::gumix
                                     : DecodeTableKind::dmix;
}

Result<DecodeTables> parse(const std::string &blob,
                           const std::vector<GgufTensor> &tensors) {
  const std::vector<uint8_t> bytes = readBlob(blob);
  const DecodeTableSource source{kindOf(blob), "K", bytes};
  return parseDecodeTables({&source, 1}, tensors, 3, "model.gguf");
}

struct Refusal {
  const char *blob, *text;
};

void expectRefusals(std::initializer_list<Refusal> refusals,
                    const std::vector<GgufTensor> &tensors) {
  for (const Refusal &refusal : refusals) {
    const Result<DecodeTables> tables = parse(refusal.blob, tensors);
    ASSERT_FALSE(tables) << refusal.blob;
    EXPECT_THAT(tables.error().text, HasSubstr("decode table K: "));
    EXPECT_THAT(tables.error().text, HasSubstr(refusal.text)) << refusal.blob;
  }
}

TEST(DecodeTables, P4mix) {
  const Result<DecodeTables> tables = parse("p4mix.ok.bin", p4mixModel());
  ASSERT_TRUE(tables) << tables.error().text;
  EXPECT_EQ(tables->size(), 3u);
  const DecodeTable &table = tables->at("blk.1.ffn_down_exps.weight");
  EXPECT_EQ(table.format, q3_1_rocmfp3_mix);
  EXPECT_EQ(table.experts, 4u);
  ASSERT_EQ(table.books.size(), 4u * 2 * 8);
  EXPECT_EQ(table.adaptive, (std::vector<uint8_t>{1, 1, 1, 1}));

  // The first book of the second entry, read by hand: entry = 24 bytes of
  // header, 4 modes, 4 rotations, 128 bytes of bf16.
  const std::vector<uint8_t> bytes = readBlob("p4mix.ok.bin");
  const size_t book = 16 + 160 + 24 + 8;
  for (int level = 0; level < 8; ++level) {
    const uint32_t bits = static_cast<uint32_t>(
        bytes[book + 2 * level] << 16 | bytes[book + 2 * level + 1] << 24);
    float value;
    std::memcpy(&value, &bits, 4);
    EXPECT_EQ(table.books[level], value);
  }
}

TEST(DecodeTables, P4mixSkipsTensorsOfAnotherType) {
  std::vector<GgufTensor> tensors = p4mixModel();
  tensors[1].typeId = 107;
  const Result<DecodeTables> tables = parse("p4mix.extra_layer.bin", tensors);
  ASSERT_TRUE(tables) << tables.error().text;
  EXPECT_EQ(tables->size(), 2u);
  EXPECT_FALSE(tables->contains("blk.1.ffn_down_exps.weight"));
}

TEST(DecodeTables, P4mixRefusals) {
  expectRefusals(
      {
          {"p4mix.bad_magic.bin", "unknown header"},
          {"p4mix.zero_entries.bin", "declares 0 entries"},
          {"p4mix.too_many.bin", "declares 4 entries"},
          {"p4mix.missing.bin", "no entry for \"blk.1.ffn_down_exps.weight\""},
          {"p4mix.duplicate.bin", "layer 1 ffn_down_exps appears twice"},
          {"p4mix.truncated_header.bin", "(header)"},
          {"p4mix.truncated_payload.bin", "ends inside entry 2 (payload)"},
          {"p4mix.wrong_dims.bin", "tensor \"blk."},
          {"p4mix.wrong_k.bin", "expected 2 of 8"},
          {"p4mix.mode2.bin", "mode 2 is not supported"},
          {"p4mix.rotation.bin",
           "layer 0 ffn_down_exps expert 0: rotation 1 is not supported; use a "
           "file that was made "
           "without rotation, or ds4c --h32=sylvester if its matrix is "
           "Sylvester's"},
          {"p4mix.huge_experts.bin", "at most 65536 experts"},
      },
      p4mixModel());
}

TEST(DecodeTables, Gumix) {
  const Result<DecodeTables> tables = parse("gumix.ok.bin", gumixModel());
  ASSERT_TRUE(tables) << tables.error().text;
  EXPECT_EQ(tables->size(), 7u);
  EXPECT_EQ(tables->at("blk.2.ffn_down_exps.weight").books.size(), 4u * 2 * 4);
  expectRefusals(
      {
          {"gumix.fused_magic.bin", "unknown header"},
          {"gumix.missing_up.bin", "no entry for \"blk.1.ffn_up_exps.weight\""},
          {"gumix.duplicate.bin", "layer 0 ffn_gate_exps appears twice"},
          {"gumix.bad_surface.bin", "surface 3"},
      },
      gumixModel());
  expectRefusals({{"gumix.row_align.bin", "not a multiple of 128"}},
                 gumixModel(96));
}

TEST(DecodeTables, Dmix) {
  const Result<DecodeTables> tables = parse("dmix.ok.bin", dmixModel());
  ASSERT_TRUE(tables) << tables.error().text;
  EXPECT_EQ(tables->at("blk.0.attn_q_a.weight").books.size(), 2u * 4);
  EXPECT_EQ(tables->at("blk.0.attn_output_a.weight").books.size(), 2u * 8);
  expectRefusals(
      {
          {"dmix.qtype_mismatch.bin", "says type"},
          {"dmix.bad_slices.bin", "slices"},
      },
      dmixModel());
}

TEST(DecodeTables, LayersThatTheModelLacksAreSkipped) {
  std::vector<uint8_t> bytes = readBlob("p4mix.ok.bin");
  bytes[16] = 200; // layer of the first entry
  std::vector<GgufTensor> tensors = p4mixModel();
  tensors.erase(tensors.begin());
  const DecodeTableSource source{DecodeTableKind::p4mix, "K", bytes};
  const Result<DecodeTables> tables =
      parseDecodeTables({&source, 1}, tensors, kModelLayers, "model.gguf");
  ASSERT_TRUE(tables) << tables.error().text;
  EXPECT_EQ(tables->size(), 2u);
}

/// A table of `blob` with 32-bit words replaced, byte offset to value.
std::string refusalOf(DecodeTableKind kind, const std::string &blob,
                      std::initializer_list<std::pair<size_t, uint32_t>> words,
                      const std::vector<GgufTensor> &tensors) {
  std::vector<uint8_t> bytes = readBlob(blob);
  for (const auto &[offset, value] : words)
    for (int i = 0; i < 4; ++i)
      bytes[offset + i] = static_cast<uint8_t>(value >> 8 * i);
  const DecodeTableSource source{kind, "K", bytes};
  const Result<DecodeTables> tables =
      parseDecodeTables({&source, 1}, tensors, kModelLayers, "model.gguf");
  return tables ? "accepted" : tables.error().text;
}

TEST(DecodeTables, RefusalsOfSingleFields) {
  constexpr auto kP4 = DecodeTableKind::p4mix, kGu = DecodeTableKind::gumix,
                 kDense = DecodeTableKind::dmix;
  const struct {
    DecodeTableKind kind;
    std::initializer_list<std::pair<size_t, uint32_t>> words;
    const char *text;
  } cases[] = {
      // The header: 8 bytes of magic, entries. More than layers times kinds.
      {kGu, {{8, 10}}, "declares 10 entries; a model of 3 layers has 1 to 9"},
      {kDense, {{8, 16}}, "declares 16 entries; a model of 3 layers has 1 to"},
      // p4mix: layer, E, out, in, C, K.
      {kP4, {{20, 0}}, "entry 0 is for 0 x 8 x 64; at most 65536 experts"},
      {kP4, {{24, 1048577}}, "entry 0 is for 4 x 1048577 x 64; at most"},
      {kP4, {{28, 0}}, "entry 0 is for 4 x 8 x 0; at most"},
      {kP4, {{32, 3}}, "entry 0 has 3 books of 8 levels, expected 2 of 8"},
      {kP4,
       {{20, 5}},
       "layer 0 ffn_down_exps says 5 x 8 x 64, tensor "
       "\"blk.0.ffn_down_exps.weight\" is 4 x 8 x 64"},
      // gumix: layer, surface, E, out, in, C, K.
      {kGu, {{40, 8}}, "entry 0 has 2 books of 8 levels, expected 2 of 4"},
      {kGu, {{32, 256}}, "says 4 x 8 x 256, tensor"},
      // dmix: layer, class, type, slices, C, K.
      {kDense, {{16, 1}}, "layer 1 attn_q_a has no tensor in the model"},
      {kDense, {{16, 3}}, "layer 3 attn_q_a has no tensor in the model"},
      {kDense, {{20, 5}}, "entry 0 has surface 5, expected 0 to 4"},
      {kDense, {{24, 101}}, "entry 0 has type 101, expected 105 or 106"},
      {kDense, {{28, 4097}}, "entry 0 has 4097 slices, expected 1 to 4096"},
      {kDense,
       {{28, 3}},
       "cuts \"blk.0.attn_q_a.weight\" into 3 slices, which"},
      {kDense, {{32, 1}}, "entry 0 has 1 books of 4 levels, expected 2 of 4"},
      {kDense, {{40, 2}}, "layer 0 attn_q_a expert 0: mode 2 is not supported"},
      {kDense, {{8, 1}}, "no entry for \"blk.0.attn_output_a.weight\""},
  };
  for (const auto &c : cases) {
    const bool experts = c.kind == kGu;
    EXPECT_THAT(
        refusalOf(c.kind,
                  c.kind == kP4 ? "p4mix.ok.bin"
                  : experts     ? "gumix.ok.bin"
                                : "dmix.ok.bin",
                  c.words,
                  c.kind == kP4 ? p4mixModel()
                  : experts     ? gumixModel()
                                : dmixModel()),
        testing::AllOf(HasSubstr("decode table K: "), HasSubstr(c.text)));
  }
}

TEST(DecodeTables, DmixRefusesWhatIsNotAdaptiveAndWhatIsThereTwice) {
  std::vector<GgufTensor> tensors = dmixModel();
  tensors[0].typeId = 101;
  EXPECT_THAT(refusalOf(DecodeTableKind::dmix, "dmix.ok.bin", {}, tensors),
              HasSubstr("layer 0 attn_q_a says type 106, tensor "
                        "\"blk.0.attn_q_a.weight\" is type 101"));
  // The first entry, once more in place of the second.
  std::vector<uint8_t> bytes = readBlob("dmix.ok.bin");
  const std::vector<uint8_t> entry(bytes.begin() + 16, bytes.begin() + 60);
  bytes.resize(60);
  bytes.insert(bytes.end(), entry.begin(), entry.end());
  const DecodeTableSource source{DecodeTableKind::dmix, "K", bytes};
  const Result<DecodeTables> twice =
      parseDecodeTables({&source, 1}, dmixModel(), kModelLayers, "model.gguf");
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().text,
            "decode table K: layer 0 attn_q_a appears twice");
}

TEST(DecodeTables, EveryTruncationIsRefused) {
  for (const auto &[blob, tensors] : {std::pair("p4mix.ok.bin", p4mixModel()),
                                      std::pair("gumix.ok.bin", gumixModel()),
                                      std::pair("dmix.ok.bin", dmixModel())}) {
    const std::vector<uint8_t> bytes = readBlob(blob);
    const DecodeTableKind kind = kindOf(blob);
    for (size_t size = 0; size < bytes.size(); ++size) {
      const DecodeTableSource source{kind, "K", std::span(bytes).first(size)};
      const Result<DecodeTables> tables =
          parseDecodeTables({&source, 1}, tensors, kModelLayers, "model.gguf");
      ASSERT_FALSE(tables) << blob << " of " << size;
      EXPECT_THAT(tables.error().text, HasSubstr("decode table K: ends inside"))
          << blob << " of " << size;
    }
  }
}

/// p4mix.ok.bin with the byte at `offset` of the first entry replaced.
Result<DecodeTables> parsePatched(size_t offset, uint8_t byte,
                                  uint8_t next = 0) {
  std::vector<uint8_t> bytes = readBlob("p4mix.ok.bin");
  bytes[16 + offset] = byte;
  bytes[16 + offset + 1] = next;
  const DecodeTableSource source{DecodeTableKind::p4mix, "K", bytes};
  return parseDecodeTables({&source, 1}, p4mixModel(), 3, "model.gguf");
}

TEST(DecodeTables, ExpertsOfModeZeroHaveFixedLevels) {
  const Result<DecodeTables> tables = parsePatched(24, 0, 1);
  ASSERT_TRUE(tables) << tables.error().text;
  const DecodeTable &table = tables->at("blk.0.ffn_down_exps.weight");
  EXPECT_EQ(table.adaptive[0], 0);
  EXPECT_EQ(table.adaptive[1], 1);
  for (int book = 0; book < 2; ++book)
    for (int code = 0; code < 8; ++code)
      EXPECT_EQ(table.books[8 * book + code],
                (std::vector<float>{0, 1, 2, 4, 0, -1, -2, -4})[code]);
}

TEST(DecodeTables, RotationsAreKeptWhereTheyAreAccepted) {
  const std::vector<GgufTensor> tensors = p4mixModel();
  std::vector<uint8_t> bytes = readBlob("p4mix.ok.bin");
  const auto parseAgain = [&] {
    const DecodeTableSource source{DecodeTableKind::p4mix, "K", bytes};
    return parseDecodeTables({&source, 1}, tensors, 3, "model.gguf",
                             Rotations::accept);
  };
  bytes[16 + 24 + 4 + 2] = 1; // expert 2 of the first entry
  const Result<DecodeTables> tables = parseAgain();
  ASSERT_TRUE(tables) << tables.error().text;
  EXPECT_EQ(tables->at("blk.0.ffn_down_exps.weight").rotated,
            (std::vector<uint8_t>{0, 0, 1, 0}));
  EXPECT_EQ(tables->at("blk.1.ffn_down_exps.weight").rotated,
            (std::vector<uint8_t>{0, 0, 0, 0}));
  bytes[16 + 24 + 4 + 2] = 2;
  const Result<DecodeTables> unknown = parseAgain();
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().text,
            "decode table K: layer 0 ffn_down_exps expert 2: rotation 2 is not "
            "supported; use a file that was made without rotation");
}

TEST(DecodeTables, LevelsMustAscendAndBeFinite) {
  const size_t book = 24 + 4 + 4;
  for (uint8_t high : {0x7f, 0xff}) { // bf16 0x7fc0, 0xffc0: NaN
    const Result<DecodeTables> tables = parsePatched(book + 2, 0xc0, high);
    ASSERT_FALSE(tables);
    EXPECT_THAT(tables.error().text, HasSubstr("level 1 of book 0 is"));
  }
  const Result<DecodeTables> infinite = parsePatched(book + 14, 0x80, 0x7f);
  ASSERT_FALSE(infinite);
  const Result<DecodeTables> same = parsePatched(book, 0x80, 0x40); // 4.0
  ASSERT_FALSE(same);
  EXPECT_THAT(same.error().text, HasSubstr("ascending"));
}

TEST(DecodeTables, Int8BooksOfFixedLevelsAreExact) {
  const Result<DecodeTables> tables = parsePatched(24, 0, 1);
  ASSERT_TRUE(tables) << tables.error().text;
  const std::vector<uint8_t> books =
      tables->at("blk.0.ffn_down_exps.weight").int8Books();
  for (int book = 0; book < 2; ++book)
    for (int i = 0; i < 12; ++i) // the levels, then 1.0f
      EXPECT_EQ(books[12 * book + i],
                (std::vector<uint8_t>{0, 1, 2, 4, 0, 0xff, 0xfe, 0xfc, 0, 0,
                                      0x80, 0x3f})[i]);
}

/// A file with one adaptive tensor a layer, and `key` set to `value` if given.
std::filesystem::path writeModel(const char *name, const char *key,
                                 GgufValue value) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / name;
  GgufWriter writer;
  writer.set("general.architecture", GgufValue::of("deepseek4"));
  writer.set("deepseek4.block_count", GgufValue::of(uint32_t{3}));
  if (key)
    writer.set(key, std::move(value));
  for (const GgufTensor &t : p4mixModel())
    EXPECT_TRUE(writer.declareTensor(t.name, t.dims, t.format()));
  EXPECT_TRUE(writer.writeSparse(path));
  return path;
}

TEST(DecodeTables, KeyThenFileThenRefusal) {
  const std::vector<uint8_t> blob = readBlob("p4mix.ok.bin");
  const char *key = "deepseek4.p4mix.sidecar";
  const auto read = [](const std::filesystem::path &path) {
    Result<Gguf> gguf = Gguf::open(path);
    EXPECT_TRUE(gguf);
    return readDecodeTables(*gguf);
  };

  const Result<DecodeTables> fromKey =
      read(writeModel("with_key.gguf", key, GgufValue::of(blob)));
  ASSERT_TRUE(fromKey) << fromKey.error().text;
  EXPECT_EQ(fromKey->size(), 3u);

  const std::filesystem::path bare =
      writeModel("bare.gguf", nullptr, GgufValue::of(blob));
  std::filesystem::remove(bare.string() + ".p4mix.bin");
  const Result<DecodeTables> absent = read(bare);
  ASSERT_FALSE(absent);
  EXPECT_THAT(absent.error().text,
              HasSubstr("neither key " + std::string(key)));
  EXPECT_THAT(absent.error().text, HasSubstr("bare.gguf.p4mix.bin exists"));

  std::ofstream(bare.string() + ".p4mix.bin", std::ios::binary)
      .write(reinterpret_cast<const char *>(blob.data()),
             static_cast<std::streamsize>(blob.size()));
  const Result<DecodeTables> fromFile = read(bare);
  ASSERT_TRUE(fromFile) << fromFile.error().text;

  // An empty file is damaged, not absent.
  std::ofstream(bare.string() + ".p4mix.bin", std::ios::trunc);
  const Result<DecodeTables> empty = read(bare);
  ASSERT_FALSE(empty);
  EXPECT_THAT(empty.error().text,
              HasSubstr("has 0 bytes, expected 1 byte to 64 MiB"));
  std::filesystem::resize_file(bare.string() + ".p4mix.bin", (64u << 20) + 1);
  const Result<DecodeTables> large = read(bare);
  ASSERT_FALSE(large);
  EXPECT_THAT(large.error().text, HasSubstr("has 67108865 bytes, expected"));
  std::filesystem::remove(bare.string() + ".p4mix.bin");

  // A key of the wrong type is an error even where the file would do.
  std::ofstream(bare.string() + ".p4mix.bin", std::ios::binary)
      .write(reinterpret_cast<const char *>(blob.data()),
             static_cast<std::streamsize>(blob.size()));
  for (const GgufValue &value :
       {GgufValue::of(uint32_t{1}), GgufValue::of(std::vector<uint8_t>{}),
        GgufValue::of(std::vector<int8_t>{1})}) {
    const Result<DecodeTables> refused =
        read(writeModel("bare.gguf", key, value));
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().text,
                HasSubstr("bare.gguf: key " + std::string(key) +
                          " must be a uint8 array of 1 byte to 64 MiB"));
  }
}

TEST(DecodeTables, TablesOfOtherFamiliesAreRefused) {
  const auto write = [](const char *name, bool withOurs) {
    const std::filesystem::path path =
        std::filesystem::path(testing::TempDir()) / name;
    GgufWriter writer;
    writer.set("deepseek4.block_count", GgufValue::of(uint32_t{3}));
    writer.set("geoquant.dmix2.sidecar",
               GgufValue::of(std::vector<uint8_t>{1}));
    if (withOurs)
      writer.set("deepseek4.dmix.sidecar",
                 GgufValue::of(readBlob("dmix.ok.bin")));
    for (const GgufTensor &t : dmixModel())
      EXPECT_TRUE(writer.declareTensor(t.name, t.dims, t.format()));
    EXPECT_TRUE(writer.writeSparse(path));
    Result<Gguf> gguf = Gguf::open(path);
    EXPECT_TRUE(gguf);
    return readDecodeTables(*gguf);
  };
  const Result<DecodeTables> refused = write("dmix2.gguf", false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().text,
            "\"blk.0.attn_q_a.weight\" is type 106, and the only table for it "
            "is geoquant.dmix2.sidecar, which is for models of other families; "
            "a DeepSeek V4 file needs deepseek4.dmix.sidecar");
  const Result<DecodeTables> both = write("dmix_both.gguf", true);
  ASSERT_TRUE(both) << both.error().text;
  EXPECT_EQ(both->size(), 2u);
}

TEST(DecodeTables, AFileWithoutAdaptiveTensorsNeedsNone) {
  const Result<Gguf> gguf =
      Gguf::open(DS4_SOURCE_DIR "/models/ds4-tiny/ds4-tiny-strix.gguf");
  ASSERT_TRUE(gguf) << gguf.error().text;
  const Result<DecodeTables> tables = readDecodeTables(*gguf);
  ASSERT_TRUE(tables) << tables.error().text;
  EXPECT_TRUE(tables->empty());
}

} // namespace
