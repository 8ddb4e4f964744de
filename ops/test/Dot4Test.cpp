// Decoders that multiply four codes at a time, as GPUs do, against their
// products element by element, bit for bit: dot4 and pick_bytes emulated, with
// selectors of 4 bits (NVIDIA) and of 8 (AMD).
#include "codegen/UnitCompiler.h"
#include "ops/test/RandomWeights.h"
#include "runtime/Device.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <unistd.h>

using namespace ds4;
using namespace ds4::test;
using enum WeightFormat;

namespace {

template <typename T> T take(Result<T> result) {
  EXPECT_TRUE(result) << result.error().text;
  return std::move(*result);
}

class Dot4 : public testing::TestWithParam<std::tuple<WeightFormat, uint32_t>> {
};

TEST_P(Dot4, GivesTheBitsOfSingleElements) {
  constexpr uint32_t kBlocks = 256;
  const auto [format, selectorBits] = GetParam();
  const WeightFormatInfo &info = weightFormatInfo(format);
  std::ifstream file(DS4_SOURCE_DIR "/ops/test/Inputs/dot4_blocks.hip");
  std::ostringstream text;
  if (selectorBits == 4)
    text << "#define DS4_EMULATE_GPU 1\n";
  text << "#define DS4_FORMAT \"weights/" << info.name << ".h\"\n"
       << "#define DS4_BOOKS " << (info.bookLevels ? ", books" : "") << "\n"
       << file.rdbuf();
  const codegen::Unit unit{"dot4_blocks", text.str()};
  const std::string object =
      take(codegen::compileUnits({&unit, 1}, *codegen::findTarget("host")));
  const std::string path =
      fmt::format("{}/dot4_{}.so", testing::TempDir(), getpid());
  std::ofstream(path, std::ios::binary) << object;
  const std::unique_ptr<Device> device = take(createHostDevice(1));
  Status loaded = device->loadObject(path);
  ASSERT_TRUE(loaded) << loaded.error().text;
  std::remove(path.c_str());

  Random random(info.bookLevels + 1);
  const auto row = randomWeights(random, format, 1, 32 * kBlocks);
  std::vector<int8_t> codes(32 * kBlocks);
  for (int8_t &code : codes)
    code = static_cast<int8_t>(static_cast<int>(random.below(255)) - 127);
  // Two books: int8 levels, then an f32 scale.
  std::vector<uint8_t> books;
  for (float scale : {0.25f, 0.3f}) {
    for (uint32_t i = 0; i < info.bookLevels; ++i)
      books.push_back(static_cast<uint8_t>(random.below(256)));
    const auto *bytes = reinterpret_cast<const uint8_t *>(&scale);
    books.insert(books.end(), bytes, bytes + sizeof scale);
  }
  std::vector<float> y(2 * kBlocks);

  std::vector<void *> args;
  auto add = [&](const void *bytes, size_t count) {
    args.push_back(take(device->allocate(count, "test")));
    EXPECT_TRUE(device->copyIn(args.back(), bytes, count));
  };
  add(row.data(), row.size());
  add(codes.data(), codes.size());
  add(books.data(), books.size());
  add(y.data(), y.size() * sizeof(float));
  add(&kBlocks, sizeof kBlocks);
  Status done =
      device->launch(take(device->kernel("dot4_blocks", 0)), 1, 1, 32, args);
  ASSERT_TRUE(done) << done.error().text;
  ASSERT_TRUE(device->copyOut(y.data(), args[3], y.size() * sizeof(float)));
  for (void *memory : args)
    device->free(memory);
  for (uint32_t b = 0; b < kBlocks; ++b)
    ASSERT_EQ(std::memcmp(&y[2 * b], &y[2 * b + 1], sizeof(float)), 0)
        << "block " << b << ": " << y[2 * b] << " and " << y[2 * b + 1];
}

INSTANTIATE_TEST_SUITE_P(
    Formats, Dot4,
    testing::Combine(testing::Values(q4_0_rocmfp4_fast, q3_0_rocmfpx,
                                     q2_0_rocmfp2, q3_1_rocmfp3_mix,
                                     q2_1_rocmfp2_mix, q8_0, iq4_nl),
                     testing::Values(4, 8)),
    [](const auto &info) {
      return fmt::format("{}_{}",
                         weightFormatInfo(std::get<0>(info.param)).name,
                         std::get<1>(info.param));
    });

} // namespace
