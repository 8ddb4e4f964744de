// Integer tiles against the oracle's products, bit for bit, with the matrix
// instructions of both GPU targets emulated: the widths of DeepSeek V4 Flash,
// the smallest ones (segments without a block), tiles that are not full.
#include "codegen/HostCompiler.h"
#include "ops/Reference.h"
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

/// Types 101, 104 and 107; int8 levels with one scale, as int8 books have.
constexpr WeightFormat kFormats[] = {q4_0_rocmfp4_fast, q3_0_rocmfpx,
                                     q2_0_rocmfp2, q8_0};

struct Size {
  uint32_t columns, rows, vectors;
};
constexpr Size kSizes[] = {
    {1024, 16, 16}, {2048, 16, 16}, {4096, 16, 16}, {8192, 16, 16},
    {32, 16, 16},   {224, 1, 1},    {96, 5, 18},    {1056, 37, 3},
};

template <typename T> T take(Result<T> result) {
  EXPECT_TRUE(result) << result.error().text;
  return std::move(*result);
}

/// The test kernel for a format, compiled and loaded. With `mma` the host does
/// as sm_90 does, else as gfx11.
class TileKernel {
public:
  TileKernel(WeightFormat format, bool mma)
      : device(take(createHostDevice(1))) {
    std::ifstream file(DS4_SOURCE_DIR "/ops/test/Inputs/tile_linear.hip");
    std::ostringstream text;
    if (mma)
      text << "#define DS4_EMULATE_MMA 1\n";
    text << "#define DS4_FORMAT \"weights/" << weightFormatInfo(format).name
         << ".h\"\n"
         << file.rdbuf();
    const codegen::Unit unit{"tile_linear", text.str()};
    const std::string object =
        take(codegen::compileUnits({&unit, 1}, *codegen::findTarget("host")));
    const std::string path =
        fmt::format("{}/tile_{}.so", testing::TempDir(), getpid());
    std::ofstream(path, std::ios::binary) << object;
    Status loaded = device->loadObject(path);
    EXPECT_TRUE(loaded) << loaded.error().text;
    std::remove(path.c_str());
  }

  std::vector<float> run(const Size &size, std::span<const uint8_t> x,
                         std::span<const uint8_t> weight) {
    std::vector<float> y(size_t(size.rows) * size.vectors);
    std::vector<void *> args;
    auto add = [&](const void *bytes, size_t count) {
      args.push_back(take(device->allocate(count, "test")));
      EXPECT_TRUE(device->copyIn(args.back(), bytes, count));
    };
    add(x.data(), x.size());
    add(weight.data(), weight.size());
    add(y.data(), y.size() * sizeof(float));
    add(&size, sizeof size);
    Status done = device->launch(take(device->kernel("tile_linear")),
                                 (size.rows + 15) / 16,
                                 (size.vectors + 15) / 16, 32, args);
    EXPECT_TRUE(done) << done.error().text;
    EXPECT_TRUE(device->copyOut(y.data(), args[2], y.size() * sizeof(float)));
    for (void *memory : args)
      device->free(memory);
    return y;
  }

private:
  std::unique_ptr<Device> device;
};

class Tile : public testing::TestWithParam<std::tuple<WeightFormat, bool>> {};

TEST_P(Tile, GivesTheBitsOfTheProducts) {
  const auto [format, mma] = GetParam();
  TileKernel kernel(format, mma);
  for (const Size &size : kSizes) {
    SCOPED_TRACE(fmt::format("{} columns", size.columns));
    Random random(size.columns);
    const auto weight = randomWeights(random, format, size.rows, size.columns);
    const ref::Q8 x = ref::quantize(
        size.columns, random.floats(size_t(size.vectors) * size.columns, 2));
    std::vector<float> want(size_t(size.rows) * size.vectors);
    ref::linear(ref::Act(x), {format, weight, size.columns}, want);
    const std::vector<float> got = kernel.run(size, x.bytes, weight);
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_EQ(std::memcmp(&want[i], &got[i], sizeof(float)), 0)
          << "vector " << i / size.rows << ", row " << i % size.rows << ": "
          << want[i] << " and " << got[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Tile,
                         testing::Combine(testing::ValuesIn(kFormats),
                                          testing::Bool()),
                         [](const auto &info) {
                           return fmt::format(
                               "{}_{}",
                               weightFormatInfo(std::get<0>(info.param)).name,
                               std::get<1>(info.param) ? "mma" : "wmma");
                         });

} // namespace
