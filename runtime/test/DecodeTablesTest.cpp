// Decode tables: the published test blobs with their expected verdicts, and
// where the tables are looked for.
#include "runtime/DecodeTables.h"
#include "runtime/GgufWriter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

using namespace ds4;
using enum WeightFormat;
using testing::HasSubstr;

namespace {

std::vector<uint8_t> readBlob(const std::string &name) {
  std::ifstream file(DS4_SOURCE_DIR "/runtime/test/data/sidecar/" + name,
                     std::ios::binary);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

GgufTensor tensor(std::string name, std::vector<uint64_t> dims,
                  WeightFormat format) {
  GgufTensor tensor;
  tensor.name = std::move(name);
  tensor.dims = std::move(dims);
  tensor.typeId = weightFormatInfo(format).typeId;
  return tensor;
}

/// The models that the blobs were made for: 3 layers.
std::vector<GgufTensor> p4mixModel() {
  std::vector<GgufTensor> tensors;
  for (int layer = 0; layer < 3; ++layer)
    tensors.push_back(
        tensor("blk." + std::to_string(layer) + ".ffn_down_exps.weight",
               {64, 8, 4}, q3_1_rocmfp3_mix));
  return tensors;
}

std::vector<GgufTensor> gumixModel(uint64_t in = 128) {
  std::vector<GgufTensor> tensors;
  for (int layer = 0; layer < 3; ++layer)
    for (const char *surface : {"gate", "up"})
      tensors.push_back(tensor("blk." + std::to_string(layer) + ".ffn_" +
                                   surface + "_exps.weight",
                               {in, 8, 4}, q2_1_rocmfp2_mix));
  tensors.push_back(
      tensor("blk.2.ffn_down_exps.weight", {in, 8, 4}, q2_1_rocmfp2_mix));
  return tensors;
}

std::vector<GgufTensor> dmixModel() {
  return {tensor("blk.0.attn_q_a.weight", {128, 16}, q2_1_rocmfp2_mix),
          tensor("blk.0.attn_output_a.weight", {64, 16}, q3_1_rocmfp3_mix)};
}

Result<DecodeTables> parse(const std::string &blob,
                           const std::vector<GgufTensor> &tensors) {
  const std::vector<uint8_t> bytes = readBlob(blob);
  const DecodeTableKind kind =
      blob.starts_with("p4mix")   ? DecodeTableKind::p4mix
      : blob.starts_with("gumix") ? DecodeTableKind::gumix
                                  : DecodeTableKind::dmix;
  const DecodeTableSource source{kind, "K", bytes};
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
          {"p4mix.rotation.bin", "rotation 1 is not supported"},
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

  // A key of the wrong type is an error even where the file would do.
  const std::filesystem::path wrong =
      writeModel("bare.gguf", key, GgufValue::of(uint32_t{1}));
  const Result<DecodeTables> refused = read(wrong);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text, HasSubstr("must be a uint8 array"));
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
