// WeightLoaderTest.cpp - files made here are loaded through small chunks, so
// that blocks straddle them; each kind of damage has its message.
#include "runtime/WeightLoader.h"

#include "runtime/GgufWriter.h"
#include "runtime/WeightCheck.h"
#include "runtime/test/FakeDevice.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <unistd.h>

namespace ds4::test {
namespace {

using enum WeightFormat;

/// Bytes that pass every check: random codes, scales from the valid range.
std::vector<std::byte> goodBytes(WeightFormat format, uint64_t elements,
                                 uint32_t seed) {
  std::mt19937 random(seed);
  const WeightFormatInfo &info = weightFormatInfo(format);
  uint64_t bytes = elements / info.blockElements * info.blockBytes;
  std::vector<std::byte> data(bytes);
  for (std::byte &byte : data)
    byte = static_cast<std::byte>(random() & 0xff);
  for (uint64_t at = 0; at < bytes; at += info.blockBytes) {
    auto set = [&](uint64_t i, uint32_t value) {
      data[at + i] = static_cast<std::byte>(value & 0xff);
    };
    for (uint32_t i = 0; i < info.scaleCount; ++i) {
      const uint64_t scale = info.scaleOffset + i;
      if (info.scaleKind == ScaleKind::f16)
        set(info.scaleOffset + 2 * i + 1, 0x2c);
      else if (info.scaleKind == ScaleKind::ue4m3)
        set(scale, random() % 0x7f);
      else if (info.scaleKind == ScaleKind::e8m0)
        set(scale, random() % 253);
      else // bit 7 is a book or a sign
        set(scale, random() % 0x7f + 0x80 * (random() & 1));
    }
    if (format == f32)
      set(3, 0x3f), set(2, random() | 0x80);
    else if (format == f16 || format == bf16)
      set(0, random() | 0x80), set(1, 0x3c);
    else if (format == i32)
      set(0, random() % 8), set(1, 0), set(2, 0), set(3, 0);
  }
  return data;
}

/// A file with one tensor of 4 x 2 x 512 elements for each format.
class WeightLoaderTest : public ::testing::Test {
protected:
  static constexpr uint64_t kColumns = 512, kRows = 2, kExperts = 4;
  static constexpr uint64_t kElements = kColumns * kRows * kExperts;

  void SetUp() override {
    path = std::filesystem::temp_directory_path() /
           ("weight_loader_test_" + std::to_string(::getpid()) + ".gguf");
    for (const WeightFormatInfo &info : weightFormats()) {
      WeightDesc desc;
      desc.name = std::string(info.name);
      desc.format = info.format;
      desc.shape = {kExperts, kRows, kColumns};
      desc.valueLimit = info.format == i32 ? 8 : 0;
      data.push_back(goodBytes(info.format, kElements, 1 + data.size()));
      desc.bytes = data.back().size();
      descs.push_back(desc);
    }
  }
  void TearDown() override { std::filesystem::remove(path); }

  Gguf writeFile() {
    GgufWriter writer;
    for (size_t i = 0; i < descs.size(); ++i) {
      Status added = writer.addTensor(
          descs[i].name, {kColumns, kRows, kExperts}, descs[i].format, data[i]);
      EXPECT_TRUE(added);
    }
    EXPECT_TRUE(writer.write(path));
    Result<Gguf> file = Gguf::open(path);
    EXPECT_TRUE(file);
    return std::move(*file);
  }

  size_t indexOf(WeightFormat format) const {
    for (size_t i = 0; i < descs.size(); ++i)
      if (descs[i].format == format)
        return i;
    return 0;
  }

  /// What device memory must hold: the tensor's rows in their layout.
  std::vector<std::byte> deviceBytesOf(size_t i) const {
    if (descs[i].layout == WeightLayout::file)
      return data[i];
    const LaneRow row = *LaneRow::of(descs[i].format, kColumns);
    std::vector<std::byte> packed(deviceBytes(descs[i]));
    for (uint64_t r = 0; r < kRows * kExperts; ++r)
      row.pack(&data[i][r * row.fileBytes], &packed[r * row.bytes]);
    return packed;
  }

  /// Loads every tensor, last desc first.
  Result<LoadStats> load(const Gguf &file, LoadOptions options = small()) {
    memory.clear();
    std::vector<WeightTarget> targets;
    for (const WeightDesc &desc : descs) {
      Result<void *> at = device.allocate(deviceBytes(desc), desc.name);
      memory.push_back(*at);
      targets.insert(targets.begin(), {&desc, *at, modesOf(desc)});
    }
    return loadWeights(file, device, targets, options);
  }

  std::span<const uint8_t> modesOf(const WeightDesc &desc) const {
    return weightFormatInfo(desc.format).bookLevels != 0
               ? std::span<const uint8_t>(modes)
               : std::span<const uint8_t>();
  }

  static LoadOptions small() {
    LoadOptions options;
    options.chunkBytes = 4096;
    options.threads = 2;
    return options;
  }

  /// Sets byte `at` of the tensor of `format`; loading must fail with `text`.
  void expectRefused(WeightFormat format, uint64_t at, uint8_t value,
                     const std::string &text) {
    size_t i = indexOf(format);
    std::byte old = data[i][at];
    data[i][at] = static_cast<std::byte>(value);
    Gguf file = writeFile();
    Result<LoadStats> result = load(file);
    ASSERT_FALSE(result) << weightFormatInfo(format).name;
    EXPECT_EQ(result.error().code, ErrorCode::invalidInput);
    EXPECT_NE(result.error().text.find(text), std::string::npos)
        << result.error().text;
    // Every message names the tensor and the place in the file.
    EXPECT_NE(result.error().text.find("`" + descs[i].name + "`"),
              std::string::npos)
        << result.error().text;
    uint64_t offset = file.findTensor(descs[i].name)->fileOffset + at;
    bool placed =
        result.error().text.find("offset " + std::to_string(offset)) !=
            std::string::npos ||
        result.error().text.find("offset " + std::to_string(offset - 1)) !=
            std::string::npos ||
        result.error().text.find("offset " + std::to_string(offset - 3)) !=
            std::string::npos;
    EXPECT_TRUE(placed) << offset << ": " << result.error().text;
    data[i][at] = old;
  }

  std::filesystem::path path;
  std::vector<WeightDesc> descs;
  std::vector<std::vector<std::byte>> data;
  std::vector<void *> memory;
  std::vector<uint8_t> modes = {1, 1, 1, 1};
  FakeDevice device{std::make_shared<DeviceLog>(), {}};
};

TEST_F(WeightLoaderTest, LoadsEveryByteThroughSmallChunks) {
  Gguf file = writeFile();
  for (bool direct : {true, false}) {
    LoadOptions options = small();
    options.allowDirect = direct;
    // The second time packed: chunks of 4096 bytes cut rows.
    if (!direct)
      for (WeightDesc &desc : descs)
        if (LaneRow::of(desc.format, kColumns))
          desc.layout = WeightLayout::lanes;
    uint64_t lastDone = 0, lastTotal = 0;
    options.progress = [&](uint64_t done, uint64_t total) {
      EXPECT_GT(done, lastDone);
      lastDone = done;
      lastTotal = total;
    };
    Result<LoadStats> stats = load(file, options);
    ASSERT_TRUE(stats) << stats.error().text;
    uint64_t total = 0;
    for (size_t i = 0; i < descs.size(); ++i) {
      total += descs[i].bytes;
      const std::vector<std::byte> expected = deviceBytesOf(i);
      EXPECT_EQ(std::memcmp(memory[i], expected.data(), expected.size()), 0)
          << descs[i].name;
    }
    EXPECT_EQ(stats->bytes, total);
    EXPECT_EQ(lastDone, total);
    EXPECT_EQ(lastTotal, total);
    EXPECT_TRUE(direct || !stats->direct);
  }
}

TEST_F(WeightLoaderTest, LoadsSomeTensorsOfAFile) {
  Gguf file = writeFile();
  size_t i = indexOf(q6_K);
  Result<void *> at = device.allocate(descs[i].bytes, "w");
  WeightTarget target{&descs[i], *at, {}};
  Result<LoadStats> stats =
      loadWeights(file, device, std::span(&target, 1), LoadOptions());
  ASSERT_TRUE(stats) << stats.error().text;
  EXPECT_EQ(stats->bytes, descs[i].bytes);
  EXPECT_EQ(std::memcmp(*at, data[i].data(), data[i].size()), 0);
}

TEST_F(WeightLoaderTest, RefusesValuesThatAreNotFinite) {
  expectRefused(f32, 4 * 77 + 3, 0x7f, "is not finite");
  expectRefused(f16, 2 * 1030 + 1, 0x7c, "element 1030 is not finite (0x7c");
  expectRefused(bf16, 2 * 9 + 1, 0xff, "is not finite");
  expectRefused(q8_0, 34 * 127 + 1, 0xfc, "block 127 has the scale");
  expectRefused(q6_K, 210 * 15 + 209, 0x7c, "block 15 has the scale");
  expectRefused(q2_K, 84 * 3 + 83, 0x7c, "block 3 has the scale"); // dmin
  expectRefused(iq2_xxs, 66 * 15 + 1, 0x7e, "block 15 has the scale");
}

TEST_F(WeightLoaderTest, RefusesScaleBytes) {
  expectRefused(q4_0_rocmfp4_fast, 17 * 60 + 16, 0x7f,
                "block 60 has scale byte 0x7f");
  expectRefused(q3_0_rocmfpx, 14 * 3 + 13, 0x80, "valid bytes are 0x00..0x7e");
  expectRefused(q2_0_rocmfp2, 10 * 127 + 8, 0xff, "another variant");
  expectRefused(q6_0_rocmfpx, 26 * 5 + 24, 0x7f, "valid bytes are 0x00..0x7e");
  expectRefused(q2_0_rocmfp2_fp2s, 10 * 9 + 8, 0xff, "low 7 bits");
  expectRefused(mxfp4, 17 * 8, 253, "exponent byte 253");
  // Adaptive: bit 7 selects a book; 0x7f and 0xff are wrong.
  expectRefused(q3_1_rocmfp3_mix, 14 * 2 + 12, 0xff, "low 7 bits");
  expectRefused(q2_1_rocmfp2_mix, 10 * 127 + 9, 0x7f, "low 7 bits");
}

TEST_F(WeightLoaderTest, ReadsAllEightScaleBitsOfExpertsWithFixedLevels) {
  // Expert 2 of 4 has fixed levels: blocks 64 to 95 of 128.
  modes = {1, 1, 0, 1};
  for (WeightFormat format : {q3_1_rocmfp3_mix, q2_1_rocmfp2_mix}) {
    size_t i = indexOf(format);
    uint32_t bytes = weightFormatInfo(format).blockBytes;
    for (uint64_t block = 64; block < 96; ++block)
      for (uint64_t last : {1, 2})
        data[i][(block + 1) * bytes - last] &= std::byte{0x3f};
  }
  Gguf file = writeFile();
  Result<LoadStats> stats = load(file);
  ASSERT_TRUE(stats) << stats.error().text;
  expectRefused(q3_1_rocmfp3_mix, 14 * 64 + 12, 0x80, "block 64 has scale");
  expectRefused(q2_1_rocmfp2_mix, 10 * 95 + 9, 0x80, "block 95 has scale");
}

TEST_F(WeightLoaderTest, RefusesExpertNumbersOutOfRange) {
  expectRefused(i32, 4 * (3 * kColumns + 5), 8, "row 3 names expert 8");
  expectRefused(i32, 4 * 5 + 3, 0x80, "row 0 names expert -");
}

TEST_F(WeightLoaderTest, RefusesAffineScales) {
  size_t i = indexOf(q2_0_rocmfp2);
  // 1024 blocks, so that the sample suffices.
  WeightDesc desc = descs[i];
  desc.shape = {16, kRows, kColumns * 2};
  std::vector<std::byte> bytes = goodBytes(q2_0_rocmfp2, 32768, 5);
  desc.bytes = bytes.size();
  auto verdict = [&](double share) {
    for (uint64_t block = 0; block < 1024; ++block) {
      bytes[block * 10 + 8] = std::byte{40};
      bytes[block * 10 + 9] = static_cast<double>(block) < share * 1024
                                  ? std::byte{45}
                                  : std::byte{35};
    }
    WeightCheck check(desc, 4096);
    // The second half first.
    const auto all = std::span<const std::byte>(bytes);
    Status fed = check.check(all.subspan(5120), 512);
    EXPECT_TRUE(fed);
    return check.check(all.first(5120), 0);
  };
  EXPECT_TRUE(verdict(0.55));
  Status affine = verdict(0.86);
  ASSERT_FALSE(affine);
  EXPECT_NE(affine.error().text.find("look like the affine layout but the dual "
                                     "layout was selected"),
            std::string::npos)
      << affine.error().text;
  // The other way round.
  desc.format = q2_0_rocmfp2_affine;
  EXPECT_TRUE(verdict(0.86));
  Status dual = verdict(0.55);
  ASSERT_FALSE(dual);
  EXPECT_NE(dual.error().text.find("look like a dual layout but the affine "
                                   "layout was selected"),
            std::string::npos)
      << dual.error().text;
}

TEST_F(WeightLoaderTest, FollowsTheBundlesReadingOfType107) {
  Gguf file = writeFile();
  std::vector<WeightDesc> some = {descs[indexOf(q2_0_rocmfp2)]};
  for (WeightFormat reading :
       {q2_0_rocmfp2_affine, q2_0_rocmfp2_fp2s, q2_0_rocmfp2_s40}) {
    some[0].format = reading;
    EXPECT_TRUE(matchWeights(file, some));
  }
  some[0].format = q2_1_rocmfp2_mix;
  EXPECT_FALSE(matchWeights(file, some));
}

TEST_F(WeightLoaderTest, RefusesOtherFiles) {
  Gguf file = writeFile();
  EXPECT_TRUE(matchWeights(file, descs));
  auto refused = [&](auto change) {
    std::vector<WeightDesc> other = descs;
    change(other[2]);
    Status status = matchWeights(file, other);
    EXPECT_FALSE(status);
    return status ? std::string() : status.error().text;
  };
  const std::string kCompiled = "the bundle was compiled for another file";
  for (const std::string &text :
       {refused([](WeightDesc &desc) { desc.name = "absent"; }),
        refused([](WeightDesc &desc) { desc.format = q6_K; }),
        refused([](WeightDesc &desc) { desc.shape[0] = 5; }),
        refused([](WeightDesc &desc) { desc.bytes += 1; })})
    EXPECT_NE(text.find(kCompiled), std::string::npos) << text;
}

TEST_F(WeightLoaderTest, ReportsAFileThatWasCut) {
  Gguf file = writeFile();
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 5000);
  for (bool direct : {true, false}) {
    LoadOptions options = small();
    options.allowDirect = direct;
    Result<LoadStats> stats = load(file, options);
    ASSERT_FALSE(stats);
    EXPECT_EQ(stats.error().code, ErrorCode::ioError);
    EXPECT_NE(stats.error().text.find("was cut"), std::string::npos)
        << stats.error().text;
  }
  std::filesystem::remove(path);
  Result<LoadStats> gone = load(file);
  ASSERT_FALSE(gone);
  EXPECT_NE(gone.error().text.find("cannot open"), std::string::npos);
}

TEST_F(WeightLoaderTest, StopsWhenAsked) {
  Gguf file = writeFile();
  LoadOptions options = small();
  int asked = 0;
  options.cancelled = [&] { return ++asked == 2; };
  Result<LoadStats> stats = load(file, options);
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, ErrorCode::cancelled);
  EXPECT_EQ(asked, 2);
}

} // namespace
} // namespace ds4::test
