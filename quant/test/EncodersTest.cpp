// Encoders against the published reference quantiser's blocks, bit for bit
// (ROCmFPX), and against what a format promises (ggml's).
#include "quant/Encoders.h"

#include "ops/Reference.h"
#include "ops/test/RandomFloats.h"
#include "ops/test/VectorFiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

using namespace ds4;
using namespace ds4::quant;

namespace {

constexpr test::VectorFolder kVectors{"quant/test/data/"};

constexpr uint64_t kColumns = 256;

struct Reference {
  WeightFormat format;
  const char *name;
};

class RocmfpxVectors : public testing::TestWithParam<Reference> {
protected:
  void compare(Floats importance, const std::string &want) {
    const std::vector<float> input = kVectors.floats("quant.input.bin");
    const std::vector<uint8_t> blocks = kVectors.bytes(want);
    const uint32_t bytes = weightFormatInfo(GetParam().format).blockBytes;
    const uint64_t rowBytes = kColumns / 32 * bytes;
    ASSERT_EQ(blocks.size(), input.size() / 32 * bytes);
    std::vector<uint8_t> got(rowBytes);
    for (uint64_t row = 0; row < input.size() / kColumns; ++row) {
      encodeRocmfpxRow(GetParam().format,
                       Floats(input).subspan(row * kColumns, kColumns),
                       importance, got.data());
      for (uint64_t i = 0; i < rowBytes; ++i)
        ASSERT_EQ(int(got[i]), int(blocks[row * rowBytes + i]))
            << "row " << row << " block " << i / bytes << " byte " << i % bytes;
    }
  }
};

TEST_P(RocmfpxVectors, Plain) {
  compare({}, std::string(GetParam().name) + ".quant.plain.bin");
}

TEST_P(RocmfpxVectors, WithImportance) {
  compare(kVectors.floats("quant.imatrix.bin"),
          std::string(GetParam().name) + ".quant.imatrix.bin");
}

INSTANTIATE_TEST_SUITE_P(
    Formats, RocmfpxVectors,
    testing::Values(Reference{WeightFormat::q4_0_rocmfp4, "fp4"},
                    Reference{WeightFormat::q4_0_rocmfp4_fast, "fp4_fast"},
                    Reference{WeightFormat::q6_0_rocmfpx, "fp6"},
                    Reference{WeightFormat::q8_0_rocmfpx, "fp8"},
                    Reference{WeightFormat::q3_0_rocmfpx, "fp3"},
                    Reference{WeightFormat::q2_0_rocmfp2, "fp2"}),
    [](const auto &info) { return std::string(info.param.name); });

TEST(Ue4m3, NearestTakesTheSmallerOfTwo) {
  EXPECT_EQ(nearestUe4m3(0), 0);
  EXPECT_EQ(nearestUe4m3(-1), 0);
  EXPECT_EQ(nearestUe4m3(INFINITY), 0);
  EXPECT_EQ(nearestUe4m3(1e-9f), 1);
  EXPECT_EQ(nearestUe4m3(300), 126);
  for (unsigned byte = 1; byte < 126; ++byte) {
    const float low = ue4m3(byte), high = ue4m3(byte + 1);
    EXPECT_EQ(nearestUe4m3(low), byte);
    EXPECT_EQ(nearestUe4m3((low + high) / 2), byte);
    EXPECT_EQ(nearestUe4m3(std::nextafter((low + high) / 2, high)), byte + 1);
  }
}

/// Squared error of `row` in `format`, relative to its squares.
double relativeError(WeightFormat format, Floats row, Floats importance) {
  std::vector<uint8_t> bytes(weightRowBytes(format, row.size()));
  encodeRow(format, row, importance, bytes.data());
  const std::vector<float> decoded =
      ref::weightRow({format, bytes, row.size()}, 0);
  double error = 0, power = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    const double w = importance.empty() ? 1 : importance[i];
    error += w * std::pow(double(row[i]) - decoded[i], 2);
    power += w * double(row[i]) * row[i];
  }
  return error / power;
}

TEST(GgmlEncoders, ErrorsAreThoseOfTheBits) {
  test::Random random(7);
  const std::vector<float> row = random.floats(1024, 3.0f);
  EXPECT_EQ(relativeError(WeightFormat::f32, row, {}), 0);
  EXPECT_LT(relativeError(WeightFormat::f16, row, {}), 1e-7);
  EXPECT_LT(relativeError(WeightFormat::bf16, row, {}), 1e-5);
  EXPECT_LT(relativeError(WeightFormat::q8_0, row, {}), 4e-5);
  EXPECT_LT(relativeError(WeightFormat::q6_K, row, {}), 7e-4);
}

TEST(GgmlEncoders, Q6KSpendsItsErrorWhereItCounts) {
  test::Random random(8);
  const std::vector<float> row = random.floats(4096, 1.0f);
  std::vector<float> importance(row.size(), 1e-3f);
  for (size_t i = 0; i < importance.size(); i += 4)
    importance[i] = 1;
  std::vector<uint8_t> plain(weightRowBytes(WeightFormat::q6_K, row.size()));
  encodeRow(WeightFormat::q6_K, row, {}, plain.data());
  const std::vector<float> decoded =
      ref::weightRow({WeightFormat::q6_K, plain, row.size()}, 0);
  double error = 0, power = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    error += importance[i] * std::pow(double(row[i]) - decoded[i], 2);
    power += importance[i] * double(row[i]) * row[i];
  }
  EXPECT_LT(relativeError(WeightFormat::q6_K, row, importance),
            0.95 * error / power);
}

TEST(Encoders, ZerosStayZeroInWhatCanBeWritten) {
  const std::vector<float> row(256, 0.0f);
  size_t written = 0;
  for (const WeightFormatInfo &info : weightFormats()) {
    const WeightFormat format = info.format;
    if (!canEncode(format))
      continue;
    ++written;
    SCOPED_TRACE(info.name);
    std::vector<uint8_t> bytes(weightRowBytes(format, row.size()));
    encodeRow(format, row, {}, bytes.data());
    for (const float x : ref::weightRow({format, bytes, row.size()}, 0))
      EXPECT_EQ(x, 0);
  }
  EXPECT_EQ(written, 11u);
  EXPECT_FALSE(canEncode(WeightFormat::iq2_xxs));
}

} // namespace
