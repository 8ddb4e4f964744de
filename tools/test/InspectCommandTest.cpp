// `ds4run inspect` on files that are made here: learned levels and their
// tables, readings of type 107 that the loader refuses, a model of Flash's
// routing. The demo model is in ds4run_inspect.test.
#include "tools/InspectCommand.h"

#include "models/Shape.h"
#include "quant/MixTables.h"
#include "runtime/Gguf.h"
#include "runtime/GgufWriter.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <unistd.h>

using namespace ds4;
using testing::HasSubstr;

namespace {

constexpr const char *kModel =
    DS4_SOURCE_DIR "/models/ds4-tiny/ds4-tiny-strix.gguf";

class InspectTest : public testing::Test {
protected:
  void SetUp() override {
    path = std::filesystem::temp_directory_path() /
           fmt::format("inspect_test_{}.gguf", ::getpid());
  }
  void TearDown() override { std::filesystem::remove(path); }

  /// The demo model with tensors of type 107 as `format`, without data but for
  /// `block`, which tensors of 107 repeat.
  void write(WeightFormat format, std::vector<uint8_t> block = {}) {
    Result<Gguf> demo = Gguf::open(kModel);
    ASSERT_TRUE(demo) << demo.error().text;
    writer.copyMetadata(*demo);
    for (const GgufTensor &tensor : demo->tensors()) {
      const bool isFp2 = tensor.format() == WeightFormat::q2_0_rocmfp2;
      std::vector<std::byte> data(tensor.bytes);
      if (isFp2 && !block.empty())
        for (size_t i = 0; i < data.size(); ++i)
          data[i] = std::byte(block[i % block.size()]);
      Status added =
          writer.addTensor(tensor.name, tensor.dims,
                           isFp2 ? format : tensor.format(), std::move(data));
      ASSERT_TRUE(added) << added.error().text;
    }
    Status written = writer.write(path);
    ASSERT_TRUE(written) << written.error().text;
  }

  Result<Inspection> inspect() {
    options.model = path;
    if (!options.memory)
      options.memory = uint64_t(1) << 40;
    return inspectModel(options);
  }
  std::string text() {
    Result<Inspection> inspection = inspect();
    return inspection ? inspection->text : inspection.error().text;
  }

  std::filesystem::path path;
  GgufWriter writer;
  InspectOptions options;
};

/// A gumix table of gate and up experts of `layers` layers; experts are
/// learned, but for the first of each.
std::vector<uint8_t> gumixTable(uint32_t layers) {
  std::vector<uint8_t> bytes(std::begin("GUMIXs1"), std::end("GUMIXs1"));
  auto u32 = [&](uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<uint8_t>(value >> shift));
  };
  u32(2 * layers);
  u32(0);
  for (uint32_t layer = 0; layer < layers; ++layer)
    for (uint32_t surface = 0; surface < 2; ++surface) {
      for (uint32_t field : {layer, surface, 8u, 256u, 256u, 2u, 4u})
        u32(field);
      for (int expert = 0; expert < 8; ++expert)
        bytes.push_back(expert > 0);
      for (int book = 0; book < 16; ++book)
        for (uint16_t level : {0xbf80, 0xbf00, 0x3f00, 0x3f80}) { // -1 .. 1
          bytes.push_back(static_cast<uint8_t>(level));
          bytes.push_back(static_cast<uint8_t>(level >> 8));
        }
    }
  return bytes;
}

} // namespace

TEST_F(InspectTest, CountsTablesOfLearnedLevels) {
  writer.set("deepseek4.gumix.sidecar", GgufValue::of(gumixTable(6)));
  write(WeightFormat::q2_1_rocmfp2_mix);
  const std::string found = text();
  EXPECT_THAT(found, HasSubstr("106 q2_1_rocmfp2_mix           12"));
  EXPECT_THAT(found, HasSubstr("106 as q2_1_rocmfp2_mix: learned levels, "));
  EXPECT_THAT(found, HasSubstr("84 of 96 matrices have learned levels, the "
                               "others fixed ones"));
  EXPECT_THAT(found, HasSubstr("gumix: 12 entries, "));
  EXPECT_THAT(found, HasSubstr("; 12 used, 0 of tensors of other types\n"));
  EXPECT_THAT(found, HasSubstr("key deepseek4.gumix.sidecar\n"));
  EXPECT_THAT(found, HasSubstr("6 of ffn_gate_exps, 8 experts, 2 books of 4 "
                               "levels, layers 0-5\n"));
  EXPECT_THAT(found,
              HasSubstr("49152 blocks sampled, 0 scale bytes invalid\n"));
}

TEST_F(InspectTest, SaysThatATableIsMissing) {
  write(WeightFormat::q2_1_rocmfp2_mix);
  EXPECT_THAT(text(),
              HasSubstr("neither key deepseek4.gumix.sidecar nor file"));
}

TEST_F(InspectTest, SaysThatBytesLookLikeAnotherReading) {
  write(WeightFormat::q2_0_rocmfp2, {0, 0, 0, 0, 0, 0, 0, 0, 3, 4});
  EXPECT_THAT(text(), HasSubstr("second byte greater in 100 %"));
  EXPECT_THAT(text(), HasSubstr("it looks affine: as dual the loader refuses"));
  options.fp2 = Fp2Reading::affine;
  EXPECT_THAT(text(), HasSubstr("107 as affine: code * scale - offset"));
  EXPECT_THAT(text(), HasSubstr("as --fp2 says, since the file does not"));
  EXPECT_THAT(text(), HasSubstr("nothing speaks against it"));
  EXPECT_THAT(text(), HasSubstr("107 q2_0_rocmfp2_affine"));
}

TEST_F(InspectTest, SaysThatAScaleByteIsTooLarge) {
  write(WeightFormat::q2_0_rocmfp2, {0, 0, 0, 0, 0, 0, 0, 0, 0x83, 3});
  EXPECT_THAT(text(), HasSubstr("49152 scale bytes above 0x7e"));
  EXPECT_THAT(text(), HasSubstr("it is fp2s or damaged: as dual the loader "
                                "refuses"));
  options.fp2 = Fp2Reading::fp2s; // 0x83 is scale 3, negated
  EXPECT_THAT(text(), HasSubstr("nothing speaks against it"));
}

TEST_F(InspectTest, FindsNothingAgainstDual) {
  write(WeightFormat::q2_0_rocmfp2,
        {0, 0, 0, 0, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 3});
  EXPECT_THAT(text(), HasSubstr("second byte greater in 50 %"));
  EXPECT_THAT(text(), HasSubstr("nothing speaks against it"));
  EXPECT_THAT(text(), HasSubstr("bytes cannot tell dual and s40 apart"));
  options.fp2 = Fp2Reading::affine;
  EXPECT_THAT(text(), HasSubstr("it looks dual or s40: as affine the loader "
                                "refuses"));
}

TEST_F(InspectTest, SaysThatAScaleByteIsInvalid) {
  writer.set("deepseek4.gumix.sidecar", GgufValue::of(gumixTable(6)));
  write(WeightFormat::q2_1_rocmfp2_mix, {0, 0, 0, 0, 0, 0, 0, 0, 3, 0xff});
  EXPECT_THAT(text(), HasSubstr("49152 scale bytes invalid: it is refused\n"));
}

/// Tables of books as the published file has them: p4mix has entries of all
/// layers, used or not.
static void addMixTables(const Gguf &flash, GgufWriter &writer) {
  quant::MixTables tables(8);
  auto entry = [&](const GgufTensor &tensor, WeightFormat format) {
    const unsigned levels = weightFormatInfo(format).bookLevels;
    std::vector<float> books;
    for (uint64_t book = 0; book < 2 * tensor.dims[2]; ++book)
      for (unsigned level = 0; level < levels; ++level)
        books.push_back(static_cast<float>(level));
    tables.add(tensor, format, books);
  };
  for (const GgufTensor &tensor : flash.tensors()) {
    if (tensor.name.find("_exps.") == std::string::npos)
      continue;
    entry(tensor, tensor.format());
    if (tensor.name.find("down") != std::string::npos &&
        tensor.format() != WeightFormat::q3_1_rocmfp3_mix)
      entry(tensor, WeightFormat::q3_1_rocmfp3_mix);
  }
  tables.write(writer);
}

TEST_F(InspectTest, ExplainsThePublishedMixFile) {
  Result<Gguf> flash = openShape("v4-flash-mix");
  ASSERT_TRUE(flash) << flash.error().text;
  GgufWriter flashWriter;
  flashWriter.copyMetadata(*flash);
  for (const GgufTensor &tensor : flash->tensors())
    ASSERT_TRUE(
        flashWriter.declareTensor(tensor.name, tensor.dims, tensor.format()));
  addMixTables(*flash, flashWriter);
  Status written = flashWriter.writeSparse(path);
  ASSERT_TRUE(written) << written.error().text;
  options.memory = 128'000'000'000;
  const std::string found = text();
  for (const char *line : {
           "Flash mix (deepseek4), GGUF 3, 98.29 GB in 1328 tensors\n",
           "43 layers of width 4096: 2 sliding, 21 CSA, 20 HCA\n",
           "256 experts, 6 routed and 1 shared a token; 3 layers by token id\n",
           " 101 q4_0_rocmfp4_fast         660     3.58 GB      4.25\n",
           " 105 q3_1_rocmfp3_mix           28    26.31 GB       3.5\n",
           " 106 q2_1_rocmfp2_mix          101    67.78 GB       2.5\n",
           "  all 7168 matrices have learned levels\n",
           "  all 25856 matrices have learned levels\n",
           // Sizes of the tables in the published file.
           "p4mix: 43 entries, 375.3 KB; 28 used, 15 of tensors of other types",
           "gumix: 101 entries, 442.4 KB; 101 used, 0 of tensors of other",
           "28 of ffn_down_exps, 256 experts, 2 books of 8 levels, layers "
           "15-42\n",
           "15 of ffn_down_exps, 256 experts, 2 books of 4 levels, layers "
           "0-14\n",
           "98.59 GB fit into the 128.00 GB given, 29.41 GB are left\n",
       })
    EXPECT_THAT(found, HasSubstr(line));
  options.memory = 96'000'000'000;
  Result<Inspection> inspection = inspect();
  ASSERT_TRUE(inspection);
  EXPECT_FALSE(inspection->fits);
  std::istringstream lines(found);
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(line.size(), 80u) << line;
}

TEST_F(InspectTest, RefusesAnotherArchitecture) {
  writer.set("general.architecture", GgufValue::of(std::string("llama")));
  Status written = writer.write(path);
  ASSERT_TRUE(written) << written.error().text;
  EXPECT_THAT(text(), HasSubstr("architecture is 'llama'"));
}

TEST_F(InspectTest, FitsTakesTheGivenMemory) {
  InspectOptions options;
  options.model = kModel;
  options.memory = 1;
  Result<Inspection> inspection = inspectModel(options);
  ASSERT_TRUE(inspection);
  EXPECT_FALSE(inspection->fits);
  options.memory = 0; // this machine's, whatever it has
  inspection = inspectModel(options);
  ASSERT_TRUE(inspection);
  EXPECT_TRUE(inspection->fits);
}
