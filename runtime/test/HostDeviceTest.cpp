// HostDeviceTest.cpp - lanes, meetings, blocks and misuse on the host device,
// with kernels that the build compiles beside it (HostDeviceKernels.cpp).
#include "runtime/BundleFormat.h"
#include "runtime/Device.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace {

class HostDeviceTest : public testing::TestWithParam<unsigned> {
protected:
  void SetUp() override {
    auto created = ds4::createHostDevice(GetParam());
    ASSERT_TRUE(created) << created.error().text;
    device = std::move(*created);
    ds4::Status loaded = device->loadObject(DS4_TEST_OBJECT);
    ASSERT_TRUE(loaded) << loaded.error().text;
  }

  ds4::Status launch(const char *symbol, uint32_t gridX, uint32_t gridY,
                     uint32_t block, std::vector<void *> args) {
    auto kernel = device->kernel(symbol, 0);
    if (!kernel)
      return kernel.error();
    return device->launch(*kernel, gridX, gridY, block, args);
  }
  /// Launches and returns the error's text, empty if there was none.
  std::string errorOf(const char *symbol, uint32_t gridX, uint32_t block,
                      std::vector<void *> args) {
    ds4::Status status = launch(symbol, gridX, 1, block, args);
    return status ? std::string() : status.error().text;
  }

  std::unique_ptr<ds4::Device> device;
};

TEST_P(HostDeviceTest, EveryThreadOfEveryBlockRunsOnce) {
  uint32_t gridX = 37;
  const uint32_t gridY = 11, blocks = gridX * gridY;
  std::vector<uint32_t> out(blocks * 64);
  ASSERT_TRUE(launch("indices", gridX, gridY, 64, {out.data(), &gridX}));
  for (uint32_t i = 0; i < out.size(); ++i)
    ASSERT_EQ(out[i], i / 64 * 1000 + i % 64 / 32 * 100 + i % 32) << i;
}

TEST_P(HostDeviceTest, LanesExchangeValuesAndSums) {
  constexpr uint32_t kBlocks = 50;
  std::vector<uint32_t> xored(kBlocks * 64), from(kBlocks * 64);
  std::vector<float> waves(kBlocks * 64), segments(kBlocks * 64),
      x(kBlocks * 64);
  for (uint32_t i = 0; i < x.size(); ++i)
    x[i] = std::sin(i * 1.7f) * (i % 5 == 0 ? 1e4f : 1.0f);
  ASSERT_TRUE(launch(
      "shuffles", kBlocks, 1, 32,
      {xored.data(), from.data(), waves.data(), segments.data(), x.data()}));
  for (uint32_t i = 0; i < x.size(); ++i) {
    const uint32_t lane = i % 32, round = i / 32 % 2;
    EXPECT_EQ(xored[i], (lane ^ 5) + 100 * round);
    EXPECT_EQ(from[i], (lane + 1) % 32 * 3 + round);
    // The butterfly, as the declared orders state it.
    float sums[32], next[32];
    std::memcpy(sums, &x[i / 32 * 32], sizeof sums);
    for (uint32_t mask = 1; mask < 32; mask *= 2) {
      for (uint32_t l = 0; l < 32; ++l)
        next[l] = sums[l] + sums[l ^ mask];
      std::memcpy(sums, next, sizeof sums);
      if (mask == 4) {
        EXPECT_EQ(segments[i], sums[lane]);
      }
    }
    EXPECT_EQ(waves[i], sums[lane]);
  }
}

TEST_P(HostDeviceTest, EightSumsAreThoseOfOneAtATime) {
  std::vector<float> x(2 * 32 * 8), sums(4 * 32);
  for (uint32_t i = 0; i < x.size(); ++i)
    x[i] = std::cos(i * 0.9f) * (i % 7 == 0 ? 1e4f : 1.0f);
  ASSERT_TRUE(launch("eight_sums", 1, 1, 32, {sums.data(), x.data()}));
  for (uint32_t i = 0; i < 2; ++i)
    for (uint32_t r = 0; r < 8; ++r) {
      float values[32], next[32];
      for (uint32_t l = 0; l < 32; ++l)
        values[l] = x[(i * 32 + l) * 8 + r];
      for (uint32_t mask = 1; mask < 32; mask *= 2) {
        for (uint32_t l = 0; l < 32; ++l)
          next[l] = values[l] + values[l ^ mask];
        std::memcpy(values, next, sizeof values);
        for (uint32_t l = r; mask == 4 && l < 32; l += 8) {
          EXPECT_EQ(sums[2 * i * 32 + l], values[l]);
        }
      }
      for (uint32_t l = r; l < 32; l += 8)
        EXPECT_EQ(sums[(2 * i + 1) * 32 + l], values[l]);
    }
}

TEST_P(HostDeviceTest, BarriersOrderSharedMemory) {
  for (uint32_t threads : {32u, 64u, 256u, 1024u}) {
    constexpr uint32_t kBlocks = 5;
    uint32_t rounds = 6;
    std::vector<uint32_t> out(kBlocks * threads);
    ASSERT_TRUE(
        launch("rotate", kBlocks, 1, threads, {out.data(), &threads, &rounds}));
    for (uint32_t block = 0; block < kBlocks; ++block) {
      std::vector<uint32_t> values(threads), next(threads);
      for (uint32_t t = 0; t < threads; ++t)
        values[t] = block * 7 + t;
      for (uint32_t i = 0; i < rounds; ++i) {
        for (uint32_t t = 0; t < threads; ++t)
          next[t] = values[threads - 1 - t] * 3 + (t ^ 1);
        values = next;
      }
      for (uint32_t t = 0; t < threads; ++t)
        ASSERT_EQ(out[block * threads + t], values[t]) << threads;
    }
  }
}

TEST_P(HostDeviceTest, WavesOfABlockMayDoDifferentThings) {
  std::vector<uint32_t> out(256), values(256);
  ASSERT_TRUE(launch("uneven_waves", 1, 1, 256, {out.data()}));
  for (uint32_t t = 0; t < 256; ++t)
    values[t] = t;
  for (uint32_t w = 0; w < 8; ++w)
    for (uint32_t i = 0; i < w; ++i) {
      std::vector<uint32_t> next = values;
      for (uint32_t l = 0; l < 32; ++l)
        next[w * 32 + l] = values[w * 32 + l] + values[w * 32 + (l ^ (1 + i))];
      values = next;
    }
  for (uint32_t t = 0; t < 256; ++t)
    EXPECT_EQ(out[t], values[t] + values[(t / 32 + 3) % 8 * 32]);
}

TEST_P(HostDeviceTest, MisuseIsAnErrorThatNamesTheKernel) {
  std::vector<float> out(64);
  EXPECT_EQ(errorOf("returns_early", 1, 32, {out.data()}),
            "kernel returns_early: a lane of wave 0 of block (0, 0) returned "
            "while others wait at wave_sum");
  EXPECT_EQ(errorOf("first_lane_returns", 1, 32, {out.data()}),
            "kernel first_lane_returns: lanes of wave 0 of block (0, 0) wait "
            "at wave_sum although others have returned");
  EXPECT_EQ(errorOf("different_meetings", 1, 32, {out.data()}),
            "kernel different_meetings: lanes of wave 0 of block (0, 0) wait "
            "at wave_sum while others wait at barrier");
  EXPECT_EQ(errorOf("first_wave_returns", 1, 64, {out.data()}),
            "kernel first_wave_returns: waves of block (0, 0) wait at barrier "
            "although others have returned");
  EXPECT_EQ(errorOf("last_wave_returns", 1, 64, {out.data()}),
            "kernel last_wave_returns: wave 1 of block (0, 0) returned while "
            "others wait at barrier");
}

TEST_P(HostDeviceTest, WorksAfterAMisuse) {
  std::vector<float> out(64 * 32);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(errorOf("block_9_breaks", 64, 32, {out.data()}),
              "kernel block_9_breaks: a lane of wave 0 of block (9, 0) "
              "returned while others wait at segment_sum");
    uint32_t threads = 256, rounds = 1;
    std::vector<uint32_t> rotated(64 * threads);
    ASSERT_TRUE(
        launch("rotate", 64, 1, threads, {rotated.data(), &threads, &rounds}));
    EXPECT_EQ(rotated[63 * threads + 5], (63 * 7 + 250u) * 3 + 4);
  }
}

TEST_P(HostDeviceTest, ResultsDoNotDependOnThreads) {
  auto other = ds4::createHostDevice(1);
  ASSERT_TRUE(other);
  ASSERT_TRUE((*other)->loadObject(DS4_TEST_OBJECT));
  uint32_t threads = 128, rounds = 3;
  std::vector<uint32_t> one(300 * threads), many(300 * threads);
  auto kernel = (*other)->kernel("rotate", 0);
  ASSERT_TRUE(kernel);
  std::vector<void *> args = {one.data(), &threads, &rounds};
  ASSERT_TRUE((*other)->launch(*kernel, 300, 1, threads, args));
  for (int i = 0; i < 20; ++i) {
    std::fill(many.begin(), many.end(), 0);
    ASSERT_TRUE(
        launch("rotate", 300, 1, threads, {many.data(), &threads, &rounds}));
    ASSERT_EQ(one, many);
  }
}

TEST_P(HostDeviceTest, AKernelReportsANan) {
  ds4::StepStatus status{};
  ASSERT_TRUE(launch("reports", 1, 3, 32, {&status}));
  EXPECT_EQ(status.launch, 0u);
  ASSERT_TRUE(launch("reports", 1, 4, 32, {&status}));
  EXPECT_EQ(status.launch, 1u);
  EXPECT_EQ(status.row, 3u);
}

TEST_P(HostDeviceTest, RefusesWhatItCannotDo) {
  EXPECT_EQ(errorOf("nothing", 1, 32, {}),
            std::string(DS4_TEST_OBJECT) +
                " has no kernel nothing: build the bundle again with ds4c");
  EXPECT_EQ(errorOf("indices", 1, 48, {}),
            "kernel indices has blocks of 48 threads; the host takes "
            "multiples of 32 up to 1024");
  EXPECT_EQ(errorOf("indices", 1, 2048, {}),
            "kernel indices has blocks of 2048 threads; the host takes "
            "multiples of 32 up to 1024");
  EXPECT_EQ(errorOf("indices", 0, 32, {}), "");
  ds4::Status missing = device->loadObject("/nonexistent/kernels.so");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().text.find("/nonexistent/kernels.so cannot be"),
            std::string::npos);
  auto huge = device->allocate(~uint64_t{0} - 100, "the arena");
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code, ds4::ErrorCode::outOfMemory);
}

TEST_P(HostDeviceTest, MemoryIsZeroedAlignedAndReadablePastTheEnd) {
  auto memory = device->allocate(240, "a buffer");
  ASSERT_TRUE(memory);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(*memory) % 256, 0u);
  const std::vector<char> zeros(256);
  EXPECT_EQ(std::memcmp(*memory, zeros.data(), 256), 0);
  device->free(*memory);
}

INSTANTIATE_TEST_SUITE_P(Threads, HostDeviceTest, testing::Values(1u, 2u, 5u));

} // namespace
