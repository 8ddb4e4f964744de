// The writer, by what the reader makes of its files and by comparing a copy of
// the demo model, which another program wrote, byte by byte.
#include "runtime/GgufWriter.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>

using namespace ds4;

namespace {

const std::filesystem::path kDemoModel =
    DS4_SOURCE_DIR "/models/ds4-tiny/ds4-tiny-strix.gguf";

/// A fresh folder that goes away with the test.
class GgufWriterTest : public ::testing::Test {
protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "gguf_writer_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  size_t filesInFolder() const {
    return std::distance(std::filesystem::directory_iterator(folder), {});
  }

  std::filesystem::path folder;
};

std::vector<char> contents(const std::filesystem::path &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::byte> someBytes(size_t count, unsigned first) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>(first + i);
  return bytes;
}

void expectSameHeader(const Gguf &a, const Gguf &b) {
  ASSERT_TRUE(std::ranges::equal(a.keys(), b.keys()));
  for (const std::string &key : a.keys())
    EXPECT_EQ(*a.find(key), *b.find(key)) << key;
  ASSERT_TRUE(std::ranges::equal(a.tensors(), b.tensors()));
  EXPECT_EQ(a.fingerprint(), b.fingerprint());
}

} // namespace

TEST_F(GgufWriterTest, CopyOfTheDemoModelIsTheSameFile) {
  Result<Gguf> model = Gguf::open(kDemoModel);
  ASSERT_TRUE(model) << model.error().text;
  GgufWriter writer;
  writer.copyMetadata(*model);
  for (const GgufTensor &tensor : model->tensors()) {
    auto producer = [&tensor](const GgufWriter::Sink &sink) -> Status {
      std::ifstream in(kDemoModel, std::ios::binary);
      in.seekg(static_cast<std::streamoff>(tensor.fileOffset));
      std::vector<std::byte> piece(4096);
      for (uint64_t left = tensor.bytes; left != 0;) {
        const uint64_t step = std::min<uint64_t>(left, piece.size());
        in.read(reinterpret_cast<char *>(piece.data()),
                static_cast<std::streamsize>(step));
        DS4_TRY(sink(std::span(piece).first(step)));
        left -= step;
      }
      return Status::ok();
    };
    Status added =
        writer.addTensor(tensor.name, tensor.dims, tensor.format(), producer);
    ASSERT_TRUE(added) << added.error().text;
  }
  Status written = writer.write(folder / "copy.gguf");
  ASSERT_TRUE(written) << written.error().text;

  Result<Gguf> copy = Gguf::open(folder / "copy.gguf");
  ASSERT_TRUE(copy) << copy.error().text;
  expectSameHeader(*model, *copy);
  EXPECT_TRUE(contents(kDemoModel) == contents(folder / "copy.gguf"));
  EXPECT_EQ(filesInFolder(), 1u) << "a temporary file was left";
}

TEST_F(GgufWriterTest, EveryTypeOfValueComesBack) {
  const std::vector<std::pair<std::string, GgufValue>> pairs = {
      {"u8", GgufValue::of(uint8_t{255})},
      {"i8", GgufValue::of(int8_t{-128})},
      {"u16", GgufValue::of(uint16_t{65535})},
      {"i16", GgufValue::of(int16_t{-32768})},
      {"u32", GgufValue::of(UINT32_MAX)},
      {"i32", GgufValue::of(INT32_MIN)},
      {"u64", GgufValue::of(UINT64_MAX)},
      {"i64", GgufValue::of(INT64_MIN)},
      {"f32", GgufValue::of(-0.0f)},
      {"f64", GgufValue::of(1e300)},
      {"bool", GgufValue::of(true)},
      {"string", GgufValue::of("not UTF-8: \xff")},
      {"bytes", GgufValue::of(std::vector<uint8_t>{0, 1, 255})},
      {"ints", GgufValue::of(std::vector<int32_t>{-1, 0, 1})},
      {"floats", GgufValue::of(std::vector<float>{10.0f, 0.5f})},
      {"none", GgufValue::of(std::vector<double>{})},
      {"strings", GgufValue::of(std::vector<std::string>{"", "a", "b c"})},
      {"nested", GgufValue::of(std::vector<GgufValue>{
                     GgufValue::of(std::vector<int64_t>{INT64_MAX}),
                     GgufValue::of(std::vector<std::string>{"x"})})},
  };
  GgufWriter writer;
  for (const auto &[key, value] : pairs)
    writer.set(key, value);
  Status written = writer.write(folder / "values.gguf");
  ASSERT_TRUE(written) << written.error().text;
  Result<Gguf> file = Gguf::open(folder / "values.gguf");
  ASSERT_TRUE(file) << file.error().text;
  ASSERT_EQ(file->keys().size(), pairs.size());
  for (const auto &[key, value] : pairs) {
    ASSERT_NE(file->find(key), nullptr) << key;
    EXPECT_EQ(*file->find(key), value) << key;
  }
}

TEST_F(GgufWriterTest, SetReplacesInPlace) {
  GgufWriter writer;
  writer.set("a", GgufValue::of(uint32_t{1}));
  writer.set("b", GgufValue::of(uint32_t{2}));
  writer.set("a", GgufValue::of("one"));
  Result<std::vector<std::byte>> header = writer.header();
  ASSERT_TRUE(header);
  Result<Gguf> file = Gguf::parse(*header, header->size(), "memory");
  ASSERT_TRUE(file) << file.error().text;
  ASSERT_EQ(file->keys().size(), 2u);
  EXPECT_EQ(file->keys()[0], "a");
  EXPECT_EQ(*file->string("a"), "one");
}

TEST_F(GgufWriterTest, AlignmentMovesData) {
  GgufWriter writer;
  writer.set("general.alignment", GgufValue::of(uint32_t{512}));
  ASSERT_TRUE(writer.addTensor("a", {3}, WeightFormat::f32, someBytes(12, 1)));
  ASSERT_TRUE(writer.addTensor("b", {2}, WeightFormat::f16, someBytes(4, 99)));
  ASSERT_TRUE(writer.write(folder / "aligned.gguf"));
  Result<Gguf> file = Gguf::open(folder / "aligned.gguf");
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_EQ(file->alignment(), 512u);
  EXPECT_EQ(file->dataOffset(), 512u);
  const GgufTensor *b = file->findTensor("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->fileOffset, 1024u);
  EXPECT_EQ(file->fileBytes(), 1536u);
  std::vector<char> bytes = contents(folder / "aligned.gguf");
  EXPECT_EQ(bytes[512], 1);
  EXPECT_EQ(bytes[524], 0);
  EXPECT_EQ(bytes[1024], 99);
}

TEST_F(GgufWriterTest, SparseFileOfAHundredGigabytes) {
  GgufWriter writer;
  writer.set("general.architecture", GgufValue::of("deepseek4"));
  for (int i = 0; i < 43; ++i)
    ASSERT_TRUE(
        writer.declareTensor("blk." + std::to_string(i) + ".ffn_gate_exps",
                             {4096, 2048, 256}, WeightFormat::q8_0));
  Status written = writer.writeSparse(folder / "large.gguf");
  ASSERT_TRUE(written) << written.error().text;
  Result<Gguf> file = Gguf::open(folder / "large.gguf");
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_EQ(file->tensors().size(), 43u);
  EXPECT_GT(file->fileBytes(), 98'000'000'000u);
  struct stat facts{};
  ASSERT_EQ(stat((folder / "large.gguf").c_str(), &facts), 0);
  EXPECT_LT(facts.st_blocks * 512, 1 << 20);
}

TEST_F(GgufWriterTest, RowsFromSeveralThreads) {
  GgufWriter writer;
  writer.set("general.architecture", GgufValue::of("deepseek4"));
  // More than one piece: 10,000 rows of 4 kB.
  ASSERT_TRUE(writer.declareTensor("a", {1024, 10'000}, WeightFormat::f32));
  ASSERT_TRUE(writer.declareTensor("b", {5}, WeightFormat::i32));
  const auto fill = [](const GgufTensor &tensor, uint64_t first,
                       std::span<std::byte> rows) {
    const uint64_t rowBytes = tensor.bytes / tensor.rows();
    for (uint64_t i = 0; i < rows.size(); ++i)
      rows[i] = static_cast<std::byte>(first + i / rowBytes + i);
    return Status::ok();
  };
  uint64_t last = 0;
  const auto progress = [&](uint64_t done, uint64_t total) {
    EXPECT_EQ(total, 40'960'020u);
    last = std::max(last, done);
  };
  for (unsigned threads : {1u, 3u}) {
    Status written =
        writer.writeRows(folder / "rows.gguf", threads, fill, progress);
    ASSERT_TRUE(written) << written.error().text;
    EXPECT_EQ(last, 40'960'020u);
    const Result<Gguf> file = Gguf::open(folder / "rows.gguf");
    ASSERT_TRUE(file) << file.error().text;
    const std::vector<char> bytes = contents(folder / "rows.gguf");
    ASSERT_EQ(bytes.size(), file->fileBytes());
    const char *a = bytes.data() + file->findTensor("a")->fileOffset;
    size_t wrong = 0;
    for (uint64_t row = 0; row < 10'000; ++row)
      wrong += a[row * 4096 + 7] != static_cast<char>(row + 7);
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(bytes[file->findTensor("b")->fileOffset + 9], 9);
  }
}

TEST_F(GgufWriterTest, RowsThatFailLeaveNoFile) {
  GgufWriter writer;
  writer.set("general.architecture", GgufValue::of("deepseek4"));
  ASSERT_TRUE(writer.declareTensor("a", {1024}, WeightFormat::f32));
  const auto fail = [](const GgufTensor &, uint64_t, std::span<std::byte>) {
    return Status(ioError("no rows today"));
  };
  Status written = writer.writeRows(folder / "a.gguf", 1, fail, nullptr);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().text, "no rows today");
  // Four petabytes.
  ASSERT_TRUE(writer.declareTensor("b", {1 << 20, 1 << 30}, WeightFormat::f32));
  written = writer.writeRows(folder / "b.gguf", 1, fail, nullptr);
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().text.find("has room for"), std::string::npos)
      << written.error().text;
  EXPECT_EQ(filesInFolder(), 0u);
}

TEST_F(GgufWriterTest, RefusesWhatTheReaderWould) {
  GgufWriter writer;
  EXPECT_FALSE(writer.declareTensor("zero", {4, 0}, WeightFormat::f32));
  EXPECT_FALSE(writer.declareTensor("row", {33}, WeightFormat::q8_0));
  EXPECT_FALSE(writer.addTensor("size", {4}, WeightFormat::f32,
                                std::vector<std::byte>(15)));
  EXPECT_TRUE(writer.header()) << "a refused tensor must leave no trace";

  GgufWriter repeated;
  ASSERT_TRUE(repeated.declareTensor("a", {1}, WeightFormat::f32));
  ASSERT_TRUE(repeated.declareTensor("a", {1}, WeightFormat::f32));
  EXPECT_NE(repeated.header().error().text.find("tensor 'a' appears twice"),
            std::string::npos);

  GgufWriter badKey;
  badKey.set("", GgufValue::of(true));
  EXPECT_FALSE(badKey.header());

  GgufWriter badAlignment;
  badAlignment.set("general.alignment", GgufValue::of(uint32_t{3}));
  EXPECT_FALSE(badAlignment.header());

  GgufWriter tooLarge;
  ASSERT_TRUE(tooLarge.declareTensor("a", {1ull << 61}, WeightFormat::f32));
  EXPECT_FALSE(tooLarge.header());
}

TEST_F(GgufWriterTest, AFailedWriteLeavesTheOldFile) {
  const std::filesystem::path path = folder / "model.gguf";
  GgufWriter good;
  ASSERT_TRUE(good.addTensor("a", {1}, WeightFormat::f32, someBytes(4, 7)));
  ASSERT_TRUE(good.write(path));
  const std::vector<char> before = contents(path);

  auto failsWith = [&](GgufWriter::Producer producer, std::string_view text) {
    GgufWriter bad;
    ASSERT_TRUE(bad.addTensor("a", {2}, WeightFormat::f32, producer));
    Status status = bad.write(path);
    ASSERT_FALSE(status);
    EXPECT_NE(status.error().text.find(text), std::string::npos)
        << status.error().text;
    EXPECT_EQ(contents(path), before);
    EXPECT_EQ(filesInFolder(), 1u) << "a temporary file was left";
  };
  failsWith([](const GgufWriter::Sink &sink) { return sink(someBytes(7, 0)); },
            "gave 7 bytes, but its shape and format need 8");
  failsWith([](const GgufWriter::Sink &sink) { return sink(someBytes(9, 0)); },
            "gave more bytes");
  failsWith(
      [](const GgufWriter::Sink &) -> Status {
        return invalidInput("the source is damaged");
      },
      "the source is damaged");
  failsWith({}, "declared without data");
}

TEST_F(GgufWriterTest, UnwritableFolder) {
  GgufWriter writer;
  Status status = writer.write(folder / "none" / "model.gguf");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::ioError);
  EXPECT_NE(status.error().text.find("No such file"), std::string::npos);
}
