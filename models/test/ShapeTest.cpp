// Shapes: the built-in ones are the published files, and each mistake in a
// shape is one sentence.
#include "models/Shape.h"
#include "models/Hparams.h"
#include "models/WeightMap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

using namespace ds4;
using testing::HasSubstr;

static uint64_t countOf(const Gguf &gguf, WeightFormat format) {
  return std::ranges::count_if(gguf.tensors(), [&](const GgufTensor &tensor) {
    return tensor.format() == format;
  });
}

/// Header, tokenizer and other metadata of the published file: its size less
/// tensor data and tensor directory (8 + name + 4 + 8 a dimension + 4 + 8).
static uint64_t metadataBytes(const Gguf &gguf) {
  uint64_t bytes = gguf.fileBytes();
  for (const GgufTensor &tensor : gguf.tensors())
    bytes -= (tensor.bytes + 31) / 32 * 32 + 24 + tensor.name.size() +
             8 * tensor.dims.size();
  return bytes;
}

TEST(Shape, StrixIsThePublishedFile) {
  Result<Gguf> gguf = openShape("v4-flash-strix");
  ASSERT_TRUE(gguf) << gguf.error().text;
  EXPECT_EQ(gguf->path(), "shape v4-flash-strix");
  EXPECT_EQ(gguf->tensors().size(), 1328u);
  EXPECT_EQ(gguf->fileBytes(), 102'320'631'200u);
  EXPECT_EQ(countOf(*gguf, WeightFormat::q4_0_rocmfp4_fast), 660u);
  EXPECT_EQ(countOf(*gguf, WeightFormat::q2_0_rocmfp2), 86u);
  EXPECT_EQ(countOf(*gguf, WeightFormat::q3_0_rocmfpx), 43u);
  uint64_t elements = 0;
  for (const GgufTensor &tensor : gguf->tensors())
    elements += tensor.elements();
  EXPECT_EQ(elements, 284'334'567'511u);
  EXPECT_EQ(metadataBytes(*gguf), 5'242'751u);

  Result<Hparams> hparams = readHparams(*gguf);
  ASSERT_TRUE(hparams) << hparams.error().text;
  Result<ModelWeights> weights = mapWeights(*gguf, *hparams);
  ASSERT_TRUE(weights) << weights.error().text;
  EXPECT_EQ(allWeights(*weights).size(), 1328u);
}

TEST(Shape, MixReplacesExperts) {
  Result<Gguf> strix = openShape("v4-flash-strix");
  Result<Gguf> mix = openShape("v4-flash-mix");
  ASSERT_TRUE(strix && mix);
  EXPECT_EQ(mix->path(), "shape v4-flash-mix");
  EXPECT_EQ(mix->fileBytes(), 98'294'917'184u);
  EXPECT_EQ(countOf(*mix, WeightFormat::q2_1_rocmfp2_mix), 101u);
  EXPECT_EQ(countOf(*mix, WeightFormat::q3_1_rocmfp3_mix), 28u);
  EXPECT_EQ(countOf(*mix, WeightFormat::q4_0_rocmfp4_fast), 660u);
  // Two tables of books, their keys, and 14 bytes more (docs/formats.md).
  EXPECT_EQ(metadataBytes(*mix) - metadataBytes(*strix),
            442'396u + 375'320 + 2 * 47 + 14);
  EXPECT_NE(mix->fingerprint(), strix->fingerprint());
  EXPECT_EQ(*readHparams(*mix)->compressRatios.rbegin(), 4);
}

/// A shape that is good until `from` is replaced by `to`.
static Result<Gguf> parseReplaced(std::string_view from, std::string_view to) {
  std::string text = R"({
    "about": "A test.",
    "metadata": {"general.architecture": "deepseek4", "b": -1.5, "c": [1, -2],
                 "d": true, "e": [0.5, 1]},
    "groups": [{"tensors": {"a": ["f32", 8]}},
               {"layers": "0-2, 7/1, 4-8/4",
                "tensors": {"x": ["q8_0", 32, 2]}}],
    "totals": {"tensors": 7, "data_bytes": 608, "file_bytes": 5000}
  })";
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return parseShape(text.replace(at, from.size(), to), "test", {});
}

TEST(Shape, ReadsEveryField) {
  Result<Gguf> gguf = parseReplaced("A test.", "The same.");
  ASSERT_TRUE(gguf) << gguf.error().text;
  std::vector<std::string> names;
  for (const GgufTensor &tensor : gguf->tensors())
    names.push_back(tensor.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"a", "blk.0.x", "blk.1.x", "blk.2.x",
                                      "blk.7.x", "blk.4.x", "blk.8.x"}));
}

TEST(Shape, MistakesNameTheField) {
  const auto error = [](std::string_view from, std::string_view to) {
    Result<Gguf> gguf = parseReplaced(from, to);
    return gguf ? "none" : gguf.error().text;
  };
  EXPECT_THAT(error("\"totals\"", "totals"),
              HasSubstr("shape test is not JSON: "));
  EXPECT_EQ(error("\"groups\": [", "\"groups\": [3, "),
            "shape test: groups[0] is not an object with \"tensors\", an "
            "object");
  EXPECT_EQ(error("\"about\"", "\"abuot\""),
            "shape test: 'abuot' is not a field of shapes (about, base, "
            "metadata, groups, totals)");
  EXPECT_EQ(error("\"metadata\": {", "\"metadata\": 3, \"groups\": {"),
            "shape test: metadata is not an object");
  EXPECT_EQ(error("-1.5", "null"),
            "shape test: metadata.\"b\" is not a string, a boolean, a number "
            "or an array of numbers");
  EXPECT_EQ(error("[1, -2]", "[1, \"x\"]"),
            "shape test: metadata.\"c\" is not a string, a boolean, a number "
            "or an array of numbers");
  for (const char *layers :
       {"", "2-", "3-2", "a", "1024", "0/0", "1,", "1 2", "-"})
    EXPECT_EQ(error("0-2, 7/1, 4-8/4", layers),
              "shape test: groups[1].layers is not a list of layers such as "
              "\"0-2, 7, 10-20/2\", each below 1024")
        << layers;
  EXPECT_EQ(error("[\"q8_0\", 32, 2]", "[\"q8_0\"]"),
            "shape test: groups[1].tensors.\"x\" is not [FORMAT, dimension, "
            "...]");
  EXPECT_EQ(error("q8_0", "q8_8"),
            "shape test: groups[1].tensors.\"x\"[0] is not a weight format "
            "that this version knows");
  EXPECT_THAT(error("32, 2", "31, 2"), HasSubstr("shape test: tensor "));
  EXPECT_EQ(error("\"tensors\": 7", "\"tensors\": 8"),
            "shape test: totals say 8 tensors of 608 bytes, the groups have 7 "
            "of 608");
  EXPECT_EQ(error("\"data_bytes\": 608", "\"data_bytes\": \"x\""),
            "shape test: totals.data_bytes is not a number of tensors or "
            "bytes");
}

TEST(Shape, BasesAreFoundAndEnd) {
  const std::string folder = testing::TempDir();
  std::ofstream(folder + "/circle.json")
      << R"({"base": "circle.json", "metadata": {}, "groups": [],
             "totals": {}})";
  Result<Gguf> circle = openShape(folder + "/circle.json");
  ASSERT_FALSE(circle);
  EXPECT_EQ(circle.error().text, "shape circle: base is not the name of a "
                                 "shape that does not lead back here");
  Result<Gguf> missing = openShape("nowhere.json");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().text,
            "shape 'nowhere.json' is neither built in (v4-flash-mix, "
            "v4-flash-strix) nor a readable file");
}
