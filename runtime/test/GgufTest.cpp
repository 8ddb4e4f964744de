// The reader over small headers made byte by byte, so that a fault of the
// writer cannot hide one here. Malformed headers are in GgufRefusalTest.cpp.
#include "runtime/Gguf.h"

#include "runtime/test/GgufBytes.h"

#include <gtest/gtest.h>

using namespace ds4;

static std::string textOf(const Error &error) { return error.text; }

TEST(Gguf, ReadsTensorsAndTheirPlaces) {
  GgufBytes bytes = ggufOfEveryType();
  Result<Gguf> file = bytes.parse();
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(file->alignment(), 32u);
  EXPECT_EQ(file->dataOffset() % 32, 0u);
  EXPECT_EQ(file->fileBytes(), file->dataOffset() + 224 + 20);
  ASSERT_EQ(file->tensors().size(), 2u);

  const GgufTensor *w = file->findTensor("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->dims, (std::vector<uint64_t>{64, 3}));
  EXPECT_EQ(w->format(), WeightFormat::q8_0);
  EXPECT_EQ(w->bytes, 3u * 2 * 34);
  EXPECT_EQ(w->elements(), 192u);
  EXPECT_EQ(w->rows(), 3u);
  EXPECT_EQ(w->fileOffset, file->dataOffset());

  const GgufTensor *norm = file->findTensor("norm.weight");
  ASSERT_NE(norm, nullptr);
  EXPECT_EQ(norm->bytes, 20u);
  EXPECT_EQ(norm->fileOffset, file->dataOffset() + 224);
  EXPECT_GT(norm->headerOffset, w->headerOffset);
  EXPECT_EQ(file->findTensor("norm"), nullptr);
  EXPECT_EQ(file->findTensor("x"), nullptr);
}

TEST(Gguf, ReadsType107AsTold) {
  GgufBytes bytes;
  bytes.tensor("a", {32}, WeightFormat::q2_0_rocmfp2, 0);
  bytes.tensor("b", {32}, WeightFormat::q8_0, 32);
  Result<Gguf> file = bytes.parse();
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_EQ(file->findTensor("a")->format(), WeightFormat::q2_0_rocmfp2);
  file->readFp2As(Fp2Reading::fp2s);
  EXPECT_EQ(file->findTensor("a")->format(), WeightFormat::q2_0_rocmfp2_fp2s);
  EXPECT_EQ(file->findTensor("b")->format(), WeightFormat::q8_0);
}

TEST(Gguf, IntegersOfAnyWidth) {
  GgufBytes bytes = ggufOfEveryType();
  Result<Gguf> file = bytes.parse();
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_EQ(*file->u64("a.u8"), 200u);
  EXPECT_EQ(*file->u64("a.u16"), 60000u);
  EXPECT_EQ(*file->u64("a.u32"), 4000000000u);
  EXPECT_EQ(*file->u64("a.u64"), UINT64_MAX);
  EXPECT_EQ(*file->i64("a.u32"), 4000000000);
  EXPECT_EQ(*file->i64("a.i8"), -3);
  EXPECT_EQ(*file->i64("a.i16"), -300);
  EXPECT_EQ(*file->i64("a.i32"), -70000);
  EXPECT_EQ(*file->i64("a.i64"), INT64_MIN);
  EXPECT_FALSE(file->u64("a.i8"));
  EXPECT_FALSE(file->i64("a.u64"));
  EXPECT_FALSE(file->u64("a.bool"));
  EXPECT_FALSE(file->u64("a.f32"));
}

TEST(Gguf, OtherScalars) {
  GgufBytes bytes = ggufOfEveryType();
  Result<Gguf> file = bytes.parse();
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_EQ(*file->f64("a.f32"), double{1e-6f});
  EXPECT_EQ(*file->f64("a.f64"), 0.1);
  EXPECT_EQ(*file->f64("a.i16"), -300.0);
  EXPECT_EQ(*file->f64("a.u64"), 18446744073709551616.0);
  EXPECT_FALSE(file->f64("a.bool"));
  EXPECT_EQ(*file->boolean("a.bool"), true);
  EXPECT_FALSE(file->boolean("a.u8"));
  EXPECT_EQ(*file->string("a.string"), "deepseek4");
  EXPECT_FALSE(file->string("b.strings"));
}

TEST(Gguf, Arrays) {
  GgufBytes bytes = ggufOfEveryType();
  Result<Gguf> file = bytes.parse();
  ASSERT_TRUE(file) << file.error().text;
  auto strings = file->stringArray("b.strings");
  ASSERT_TRUE(strings) << strings.error().text;
  ASSERT_EQ(strings->size(), 3u);
  EXPECT_EQ((*strings)[0], "\xc4\xa0the");
  EXPECT_EQ((*strings)[1], "");
  EXPECT_EQ((*strings)[2], "a string that is longer than any inline buffer");
  EXPECT_EQ(file->stringArray("b.empty")->size(), 0u);

  EXPECT_EQ(*file->intArray("b.ints"), (std::vector<int64_t>{0, -4, 128}));
  EXPECT_EQ(*file->intArray("b.bytes"), (std::vector<int64_t>{1, 0, 255}));
  EXPECT_EQ(*file->intArray("a.i8"), (std::vector<int64_t>{-3}));
  EXPECT_FALSE(file->intArray("b.floats"));
  EXPECT_FALSE(file->intArray("b.empty"));
  EXPECT_FALSE(file->intArray("a.u64")) << "2^64 - 1 is above int64";
  EXPECT_EQ(*file->floatArray("b.floats"), (std::vector<double>{10.0, 2.5}));
  EXPECT_EQ(*file->floatArray("b.ints"), (std::vector<double>{0, -4, 128}));
  EXPECT_EQ(*file->floatArray("a.f64"), (std::vector<double>{0.1}));

  auto raw = file->byteArray("b.bytes");
  ASSERT_TRUE(raw) << raw.error().text;
  EXPECT_EQ(std::vector<uint8_t>(raw->begin(), raw->end()),
            (std::vector<uint8_t>{1, 0, 255}));
  EXPECT_FALSE(file->byteArray("b.ints"));

  const GgufValue *nested = file->find("b.nested");
  ASSERT_NE(nested, nullptr);
  ASSERT_EQ(nested->size(), 2u);
  EXPECT_EQ(nested->at(0), GgufValue::of(std::vector<uint16_t>{7}));
  EXPECT_EQ(nested->at(1), GgufValue::of(std::vector<std::string>{"x"}));
}

TEST(Gguf, GetterErrorsNameKeyTypesAndPlace) {
  GgufBytes bytes = ggufOfEveryType();
  Result<Gguf> file = bytes.parse();
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_EQ(textOf(file->u64("a.none").error()),
            "test.gguf: metadata key 'a.none' is missing; a non-negative "
            "integer is required");
  EXPECT_EQ(textOf(file->string("a.u8").error()),
            "test.gguf: metadata key 'a.u8' at byte 24 is u8 200, but a string "
            "is required");
  EXPECT_NE(textOf(file->u64("a.i32").error()).find("i32 -70000"),
            std::string::npos);
  EXPECT_NE(textOf(file->byteArray("b.ints").error()).find("array of i32"),
            std::string::npos);
}

TEST(Gguf, OptionalKeys) {
  GgufBytes bytes = ggufOfEveryType();
  Result<Gguf> file = bytes.parse();
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_EQ(*file->u64Or("a.none", 7), 7u);
  EXPECT_EQ(*file->u64Or("a.u8", 7), 200u);
  EXPECT_FALSE(file->u64Or("a.string", 7));
  EXPECT_EQ(*file->i64Or("a.none", -7), -7);
  EXPECT_EQ(*file->f64Or("a.none", 0.5), 0.5);
  EXPECT_EQ(*file->booleanOr("a.none", true), true);
  EXPECT_EQ(*file->stringOr("a.none", "x"), "x");
  EXPECT_EQ(file->intArrayOr("a.none", {1})->size(), 1u);
  EXPECT_EQ(file->floatArrayOr("a.none", {1, 2})->size(), 2u);
}

TEST(Gguf, FingerprintIsOfTheHeaderAlone) {
  GgufBytes bytes = ggufOfEveryType();
  Result<Gguf> file = bytes.parse();
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_EQ(file->fingerprint().size(), 32u);

  std::vector<std::byte> image = bytes.image();
  Result<Gguf> same = Gguf::parse(image, image.size(), "other name");
  ASSERT_TRUE(same);
  EXPECT_EQ(same->fingerprint(), file->fingerprint());

  image[file->dataOffset()] ^= std::byte{1};
  Result<Gguf> otherWeights = Gguf::parse(image, image.size(), "test.gguf");
  ASSERT_TRUE(otherWeights);
  EXPECT_EQ(otherWeights->fingerprint(), file->fingerprint());

  image[file->dataOffset() - 1] ^= std::byte{1}; // padding
  Result<Gguf> otherHeader = Gguf::parse(image, image.size(), "test.gguf");
  ASSERT_TRUE(otherHeader);
  EXPECT_NE(otherHeader->fingerprint(), file->fingerprint());
}

TEST(Gguf, VersionTwoAndAnotherAlignment) {
  GgufBytes bytes;
  bytes.version = 2;
  bytes.alignment = 4096;
  bytes.pair("general.alignment", GgufType::uint32).put(uint32_t{4096});
  bytes.tensor("a", {2}, WeightFormat::f32, 0);
  bytes.tensor("b", {2}, WeightFormat::f16, 4096);
  Result<Gguf> file = bytes.parse();
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_EQ(file->version(), 2u);
  EXPECT_EQ(file->dataOffset(), 4096u);
  EXPECT_EQ(file->findTensor("b")->fileOffset, 8192u);
}

TEST(Gguf, NoTensorsNeedNoPadding) {
  GgufBytes bytes;
  bytes.pair("k", GgufType::uint8).put(uint8_t{1});
  std::vector<std::byte> header = bytes.header();
  Result<Gguf> file = Gguf::parse(header, header.size(), "test.gguf");
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_EQ(file->keys().size(), 1u);
}

TEST(Gguf, OpensTheDemoModel) {
  Result<Gguf> file =
      Gguf::open(DS4_SOURCE_DIR "/models/ds4-tiny/ds4-tiny-strix.gguf");
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_EQ(*file->string("general.architecture"), "deepseek4");
  const GgufTensor *embedding = file->findTensor("token_embd.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->dims[0], *file->u64("deepseek4.embedding_length"));
  EXPECT_EQ(embedding->dims[1],
            file->stringArray("tokenizer.ggml.tokens")->size());
  EXPECT_TRUE(file->intArray("deepseek4.attention.compress_ratios"));
}

TEST(Gguf, OpenRefusesWhatIsNoFile) {
  Result<Gguf> none = Gguf::open("/nonexistent/x.gguf");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::ioError);
  EXPECT_EQ(none.error().text,
            "cannot open /nonexistent/x.gguf: No such file or directory");
  Result<Gguf> folder = Gguf::open("/");
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().text, "cannot open /: it is not a regular file");
}
