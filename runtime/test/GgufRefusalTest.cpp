// Malformed GGUF files: each is refused with a message that names file and
// byte, and no refusal takes more than 64 MiB. The global allocator is replaced
// here to hold that.
#include "runtime/test/GgufBytes.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <malloc.h>
#include <new>
#include <unistd.h>

using namespace ds4;

static std::atomic<size_t> liveBytes = 0, peakBytes = 0;

void *operator new(size_t bytes) {
  void *memory = std::malloc(bytes);
  if (!memory)
    std::abort();
  const size_t live = liveBytes += malloc_usable_size(memory);
  if (live > peakBytes)
    peakBytes = live;
  return memory;
}
void operator delete(void *memory) noexcept {
  liveBytes -= malloc_usable_size(memory);
  std::free(memory);
}
void operator delete(void *memory, size_t) noexcept { operator delete(memory); }

namespace {

/// Runs `parse` and expects an error with all of `texts` that took little
/// memory.
template <typename Parse>
void expectError(Parse parse, std::initializer_list<std::string_view> texts) {
  const size_t before = liveBytes;
  peakBytes = before;
  Result<Gguf> file = parse();
  EXPECT_LE(peakBytes - before, size_t{64} << 20);
  ASSERT_FALSE(file) << "it was accepted";
  for (std::string_view text : texts)
    EXPECT_NE(file.error().text.find(text), std::string::npos)
        << "\"" << text << "\" is not in: " << file.error().text;
}

void expectRefused(const GgufBytes &bytes,
                   std::initializer_list<std::string_view> texts) {
  expectError([&] { return bytes.parse(); }, texts);
  expectError([&] { return bytes.parse(); }, {"test.gguf: at byte "});
}

/// The same header at the start of a sparse file of 1 TiB, where no count or
/// length is beyond the end of the file.
void expectRefusedSparse(const GgufBytes &bytes,
                         std::initializer_list<std::string_view> texts) {
  std::string path = ::testing::TempDir() + "gguf_refusal_XXXXXX";
  const int fd = mkstemp(path.data());
  ASSERT_GE(fd, 0);
  std::vector<std::byte> header = bytes.header();
  ASSERT_EQ(write(fd, header.data(), header.size()),
            static_cast<ssize_t>(header.size()));
  ASSERT_EQ(ftruncate(fd, off_t{1} << 40), 0);
  expectError([&] { return Gguf::open(path); }, texts);
  close(fd);
  unlink(path.c_str());
}

/// A tensor behind one pair, the usual case.
GgufBytes oneTensor(std::vector<uint64_t> dims, uint32_t typeId,
                    uint64_t offset = 0) {
  GgufBytes bytes;
  bytes.pair("k", GgufType::uint8).put(uint8_t{1});
  bytes.tensor("w", std::move(dims), typeId, offset);
  return bytes;
}

constexpr uint32_t kF32 = 0, kQ8 = 8;

} // namespace

TEST(GgufRefusal, Preamble) {
  auto refuse = [](std::string_view start,
                   std::initializer_list<std::string_view> texts) {
    std::vector<std::byte> bytes(64);
    std::memcpy(bytes.data(), start.data(), start.size());
    expectError([&] { return Gguf::parse(bytes, 64, "x.gguf"); }, texts);
  };
  using namespace std::string_view_literals;
  refuse("GGML\3\0\0\0"sv, {"x.gguf: at byte 0", "does not start with GGUF"});
  refuse("GGUF\0\0\0\3"sv, {"at byte 4", "big endian"});
  refuse("GGUF\1\0\0\0"sv, {"at byte 4", "version 1 is not supported"});
  refuse("GGUF\4\0\0\0"sv, {"version 4", "reads 2 and 3"});
  refuse("GGUF\0\0\0\0"sv, {"version 0", "reads 2 and 3"});
  expectError([] { return Gguf::parse({}, 0, "x.gguf"); }, {"too short"});
}

TEST(GgufRefusal, CountsBeyondTheFile) {
  for (uint64_t extra :
       {uint64_t{100'000}, uint64_t{1} << 40, UINT64_MAX - 100}) {
    GgufBytes pairs = ggufOfEveryType(), tensors = ggufOfEveryType();
    pairs.extraPairs = extra;
    tensors.extraTensors = extra;
    expectRefused(pairs, {"metadata pairs cannot be in the"});
    expectRefused(tensors, {"tensors cannot be in the"});
  }
  GgufBytes sparse;
  sparse.extraPairs = uint64_t{1} << 34;
  expectRefusedSparse(sparse, {"more than 60 MiB"});
  GgufBytes sparseTensors;
  sparseTensors.extraTensors = uint64_t{1} << 34;
  expectRefusedSparse(sparseTensors, {"more than 60 MiB"});
}

TEST(GgufRefusal, Dimensions) {
  expectRefused(oneTensor({}, kF32), {"tensor 'w'", "no dimensions"});
  expectRefused(oneTensor({0}, kF32), {"tensor 'w'", "dimension 0 is 0"});
  expectRefused(oneTensor({8, 3, 0}, kF32), {"dimension 2 is 0"});
  expectRefused(oneTensor({1, 1, 1, 1, 1}, kF32), {"has 5 dimensions"});
  GgufBytes many;
  many.pair("k", GgufType::uint8).put(uint8_t{1});
  many.tensor("w", {}, kF32, 0);
  std::vector<std::byte> bytes = many.image();
  const uint32_t count = UINT32_MAX;
  std::memcpy(&bytes[24 + 8 + 1 + 4 + 1 + 8 + 1], &count, 4);
  expectError([&] { return Gguf::parse(bytes, bytes.size(), "x"); },
              {"has 4294967295 dimensions"});
}

TEST(GgufRefusal, SizesThatWrap) {
  const uint64_t half = uint64_t{1} << 32;
  expectRefused(oneTensor({half, half}, kF32), {"does not fit 64 bits"});
  // 2^62 elements of 4 bytes are 0 bytes modulo 2^64.
  expectRefused(oneTensor({uint64_t{1} << 62}, kF32), {"does not fit 64 bits"});
  expectRefused(oneTensor({32, half, half, 2}, kQ8), {"does not fit 64 bits"});
  expectRefused(oneTensor({UINT64_MAX / 4 - 10}, kF32),
                {"the end of its data does not fit 64 bits"});
  expectRefused(oneTensor({8}, kF32, UINT64_MAX - 31),
                {"the end of its data does not fit 64 bits"});
}

TEST(GgufRefusal, RowsOfPartialBlocks) {
  expectRefused(oneTensor({33}, kQ8), {"row length 33", "multiple of 32"});
  expectRefused(oneTensor({160}, 106), {"row length 160", "multiple of 128"});
}

TEST(GgufRefusal, TypeIds) {
  expectRefused(oneTensor({32}, 99), {"tensor 'w'", "ggml type 99"});
  for (uint32_t id : {108, 109, 110, 112, 200})
    expectRefused(oneTensor({256}, id), {"tensor 'w'", "private to forks",
                                         fmt::format("ggml type {}", id)});
}

TEST(GgufRefusal, Alignment) {
  for (uint32_t alignment : {0u, 3u, 1u, 4u, 131072u, 1u << 30}) {
    GgufBytes bytes;
    bytes.pair("general.alignment", GgufType::uint32).put(alignment);
    expectRefused(bytes, {fmt::format("general.alignment is {}", alignment),
                          "powers of two from 8 to 65536", "at byte 24"});
  }
  GgufBytes wide, text;
  wide.pair("general.alignment", GgufType::uint64).put(uint64_t{32});
  text.pair("general.alignment", GgufType::string).text("32");
  expectRefused(wide, {"is u64, but it must be u32"});
  expectRefused(text, {"is string, but it must be u32"});
}

TEST(GgufRefusal, PlacesOfTensors) {
  expectRefused(oneTensor({8}, kF32, 16),
                {"data offset 16 is not a multiple of the alignment, 32"});

  GgufBytes overlap;
  overlap.tensor("late", {16}, kF32, 32).tensor("early", {9}, kF32, 0);
  expectRefused(overlap, {"tensor 'early': expected 36 bytes", "'late'",
                          "starts after 32", "overlap"});
  GgufBytes same;
  same.tensor("a", {8}, kF32, 0).tensor("b", {8}, kF32, 0);
  expectRefused(same, {"overlap"});

  // A hole is harmless, unless it tells of a private type id.
  GgufBytes hole;
  hole.tensor("a", {8}, kF32, 0).tensor("b", {8}, kF32, 64);
  EXPECT_TRUE(hole.parse());
  GgufBytes fork;
  fork.tensor("a", {128}, 105, 0).tensor("b", {8}, kF32, 96);
  expectRefused(fork, {"tensor 'a': expected 56 bytes", "starts after 96",
                       "type id 105 is private"});
  GgufBytes ours;
  ours.tensor("a", {128}, 105, 0).tensor("b", {8}, kF32, 64);
  EXPECT_TRUE(ours.parse());
}

TEST(GgufRefusal, TruncatedData) {
  GgufBytes bytes = ggufOfEveryType();
  std::vector<std::byte> image = bytes.image();
  EXPECT_TRUE(Gguf::parse(image, image.size(), "x"));
  expectError([&] { return Gguf::parse(image, image.size() - 1, "x"); },
              {"tensor 'norm.weight'", "1 bytes past the end of the file",
               "truncated, download it again"});
  expectError([&] { return Gguf::parse(image, image.size() - 200, "x"); },
              {"200 bytes past the end"});
}

TEST(GgufRefusal, Names) {
  GgufBytes key, name;
  key.pair("k", GgufType::uint8).put(uint8_t{1});
  key.pair("k", GgufType::uint8).put(uint8_t{1});
  expectRefused(key, {"at byte 38: metadata key 'k' appears twice"});
  name.tensor("w", {8}, kF32, 0).tensor("v", {8}, kF32, 32);
  name.tensor("w", {8}, kF32, 64);
  expectRefused(name, {"tensor 'w' appears twice"});

  using namespace std::string_view_literals;
  GgufBytes noKey, noName;
  noKey.pair("", GgufType::uint8).put(uint8_t{1});
  noKey.pair("a", GgufType::uint8).put(uint8_t{1});
  noName.pair("k", GgufType::uint8).put(uint8_t{1});
  noName.tensor("", {64}, kF32, 0);
  expectRefused(noKey, {"metadata pair 1 of 2", "the key is empty"});
  expectRefused(noName, {"tensor 1 of 1", "the name is empty"});

  for (std::string_view bad :
       {"\xff"sv, "abc\xc3"sv, "\xc0\xaf"sv, "\xed\xa0\x80"sv}) {
    GgufBytes badKey, badName;
    badKey.pair(bad, GgufType::uint8).put(uint8_t{1});
    badName.tensor(bad, {8}, kF32, 0);
    expectRefused(badKey, {"metadata pair 1 of 1", "the key is not UTF-8"});
    expectRefused(badName, {"tensor 1 of 1", "the name is not UTF-8"});
  }
  GgufBytes nulKey, nulName;
  nulKey.pair("a\0b"sv, GgufType::uint8).put(uint8_t{1});
  nulName.tensor("a\0b"sv, {8}, kF32, 0);
  expectRefused(nulKey, {"at byte 33", "the key contains a NUL character"});
  expectRefused(nulName, {"the name contains a NUL character"});

  GgufBytes longKey, longName;
  longKey.pair(std::string(65536, 'k'), GgufType::uint8).put(uint8_t{1});
  longName.tensor(std::string(1025, 'w'), {8}, kF32, 0);
  expectRefused(longKey, {"the key has 65536 bytes, more than 65535"});
  expectRefused(longName, {"the name has 1025 bytes, more than 1024"});
}

TEST(GgufRefusal, MessagesShowNoControlCharacters) {
  GgufBytes bytes;
  bytes.tensor("\x1b[2Jw", {0}, kF32, 0);
  expectRefused(bytes, {"tensor '\\x1b[2Jw'"});
  bytes = {};
  bytes.tensor(std::string(300, 'w'), {0}, kF32, 0);
  expectRefused(bytes, {std::string(80, 'w') + "...'"});
}

TEST(GgufRefusal, LengthsBeyondTheFile) {
  for (uint64_t length : {uint64_t{1000}, uint64_t{1} << 40, UINT64_MAX}) {
    GgufBytes key, string, strings, element, floats, arrays;
    key.put(length).put(uint64_t{0}).extraPairs = 1;
    expectRefused(key, {"at byte 32", "the key takes"});
    string.pair("k", GgufType::string).put(length);
    expectRefused(
        string, {"metadata key 'k'", "the string takes", "download it again"});
    strings.pair("k", GgufType::array).array(GgufType::string, length);
    expectRefused(strings, {"strings cannot be in the"});
    element.pair("k", GgufType::array).array(GgufType::string, 2);
    element.text("a").put(length);
    expectRefused(element, {"a string of the array takes"});
    floats.pair("k", GgufType::array).array(GgufType::float64, length);
    expectRefused(floats, {"array elements cannot be in the"});
    arrays.pair("k", GgufType::array).array(GgufType::array, length);
    expectRefused(arrays, {"arrays cannot be in the"});
  }
}

TEST(GgufRefusal, LengthsWithinASparseFile) {
  const uint64_t many = uint64_t{1} << 32;
  GgufBytes string, strings, bytes, arrays, repeated;
  string.pair("k", GgufType::string).put(many);
  expectRefusedSparse(string, {"metadata key 'k'", "more than 60 MiB"});
  strings.pair("k", GgufType::array).array(GgufType::string, many);
  expectRefusedSparse(strings, {"more than 60 MiB"});
  bytes.pair("k", GgufType::array).array(GgufType::uint8, many);
  expectRefusedSparse(bytes, {"more than 60 MiB"});
  arrays.pair("k", GgufType::array).array(GgufType::array, many);
  expectRefusedSparse(arrays, {"more than 60 MiB"});
  // Each of these is small enough, all together are not. The zeros behind
  // the header are empty strings, then an empty key.
  repeated.pair("k", GgufType::array).array(GgufType::string, 1'900'000);
  repeated.extraPairs = 1;
  expectRefusedSparse(repeated, {"the key is empty"});
}

TEST(GgufRefusal, Values) {
  GgufBytes type, element, boolean, booleans;
  type.pair("k", static_cast<GgufType>(13)).put(uint64_t{0});
  expectRefused(type, {"metadata key 'k'", "value type 13 is unknown"});
  element.pair("k", GgufType::array)
      .array(static_cast<GgufType>(77), 1)
      .put(uint64_t{0});
  expectRefused(element, {"value type 77 is unknown"});
  boolean.pair("k", GgufType::boolean).put(uint8_t{2});
  expectRefused(boolean, {"at byte 37", "a bool is 2"});
  booleans.pair("k", GgufType::array).array(GgufType::boolean, 3);
  booleans.put(uint8_t{0}).put(uint8_t{1}).put(uint8_t{255});
  expectRefused(booleans, {"at byte 51", "a bool is 255"});
}

TEST(GgufRefusal, NestedArrays) {
  for (int depth : {5, 1000}) {
    GgufBytes bytes;
    bytes.pair("k", GgufType::array);
    for (int i = 1; i < depth; ++i)
      bytes.array(GgufType::array, 1);
    bytes.array(GgufType::uint8, 1).put(uint8_t{1});
    expectRefused(bytes, {"nested more than 4 deep"});
  }
  GgufBytes allowed;
  allowed.pair("k", GgufType::array);
  for (int i = 1; i < 4; ++i)
    allowed.array(GgufType::array, 1);
  allowed.array(GgufType::uint8, 1).put(uint8_t{1});
  EXPECT_TRUE(allowed.parse());
}

TEST(GgufRefusal, TruncationAtEveryByteOfTheHeader) {
  std::vector<std::byte> image = ggufOfEveryType().image();
  Result<Gguf> whole = Gguf::parse(image, image.size(), "x");
  ASSERT_TRUE(whole);
  for (uint64_t end = 0; end < whole->dataOffset(); ++end) {
    // Copied, so that the sanitizers see a read past the end.
    std::vector<std::byte> part(image.begin(), image.begin() + end);
    Result<Gguf> file = Gguf::parse(part, end, "x");
    ASSERT_FALSE(file) << "cut at " << end;
    EXPECT_EQ(file.error().text.find("x: at byte "), 0u) << file.error().text;
    // The same bytes as the start of a file that is whole.
    Result<Gguf> prefix = Gguf::parse(part, image.size(), "x");
    ASSERT_FALSE(prefix) << "given " << end;
  }
}

TEST(GgufRefusal, TruncatedDemoModel) {
  std::ifstream in(DS4_SOURCE_DIR "/models/ds4-tiny/ds4-tiny-strix.gguf",
                   std::ios::binary);
  std::vector<char> start(1 << 20);
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  ASSERT_EQ(in.gcount(), static_cast<std::streamsize>(start.size()));
  std::span<const std::byte> bytes = std::as_bytes(std::span(start));
  // All of the scalar keys, then steps that hit every kind of field.
  for (uint64_t end = 0; end < start.size(); end += end < 3000 ? 1 : 997)
    ASSERT_FALSE(Gguf::parse(bytes.first(end), end, "x")) << "cut at " << end;
}

TEST(GgufRefusal, EveryByteOfTheHeaderInverted) {
  // Most are refused; none may crash, and what is accepted must hold together.
  const std::vector<std::byte> image = ggufOfEveryType().image();
  for (size_t i = 0; i < image.size() - 244; ++i) {
    std::vector<std::byte> damaged = image;
    damaged[i] ^= std::byte{0xff};
    Result<Gguf> file = Gguf::parse(damaged, damaged.size(), "x");
    if (!file)
      continue;
    for (const GgufTensor &tensor : file->tensors())
      ASSERT_LE(tensor.fileOffset + tensor.bytes, damaged.size());
  }
}
