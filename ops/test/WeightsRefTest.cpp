// The oracle's weight decoders against the published decoders' vectors, bit
// for bit, and its block dot products against sums in double.
#include "ops/Reference.h"
#include "ops/test/RandomFloats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

using namespace ds4;
using namespace ds4::ref;
using enum WeightFormat;

namespace {

std::vector<uint8_t> readData(const std::string &name) {
  std::ifstream file(DS4_SOURCE_DIR "/ops/test/data/" + name, std::ios::binary);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<float> readFloats(const std::string &name) {
  const std::vector<uint8_t> bytes = readData(name);
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// bfloat16 bits widened by hand.
std::vector<float> readBooks(const std::string &name) {
  const std::vector<uint8_t> bytes = readData(name);
  std::vector<float> values;
  for (size_t i = 0; i < bytes.size(); i += 2)
    values.push_back(std::bit_cast<float>(
        static_cast<uint32_t>(bytes[i] << 16 | bytes[i + 1] << 24)));
  return values;
}

struct Vectors {
  WeightFormat format;
  const char *blocks, *values, *books;
  uint64_t rows;
};

TEST(WeightsRef, DecodesTheVectors) {
  for (const Vectors &v : {
           Vectors{q8_0, "q8_0.blocks.bin", "q8_0.values.bin", "", 1},
           Vectors{q6_K, "q6_K.blocks.bin", "q6_K.values.bin", "", 1},
           Vectors{q4_0_rocmfp4_fast, "fp4_fast.dequant.blocks.bin",
                   "fp4_fast.dequant.values.bin", "", 1},
           Vectors{q3_0_rocmfpx, "fp3.dequant.blocks.bin",
                   "fp3.dequant.values.bin", "", 1},
           Vectors{q2_0_rocmfp2, "fp2.dequant.blocks.bin",
                   "fp2.dequant.values.bin", "", 1},
           Vectors{q3_1_rocmfp3_mix, "mix105.dequant.blocks.bin",
                   "mix105.dequant.values.bin", "mix105.codebooks.bin", 4},
           Vectors{q2_1_rocmfp2_mix, "mix106.dequant.blocks.bin",
                   "mix106.dequant.values.bin", "mix106.codebooks.bin", 4},
       }) {
    SCOPED_TRACE(v.blocks);
    const std::vector<uint8_t> blocks = readData(v.blocks);
    const std::vector<float> want = readFloats(v.values);
    const std::vector<float> books =
        *v.books ? readBooks(v.books) : std::vector<float>();
    const uint64_t columns = want.size() / v.rows;
    const Weight weight{v.format, blocks, columns, books, 1};
    ASSERT_EQ(weight.rows(), v.rows);
    const uint64_t perExpert = books.size() / v.rows;
    int wrong = 0;
    for (uint64_t row = 0; row < v.rows; ++row) {
      const std::vector<float> got = weightRow(weight, row);
      for (uint64_t i = 0; i < columns; ++i) {
        const uint32_t bits = std::bit_cast<uint32_t>(want[row * columns + i]);
        const float one = weightAt(v.format, weight.row(row), i,
                                   books.data() + row * perExpert);
        wrong += std::bit_cast<uint32_t>(got[i]) != bits;
        wrong += std::bit_cast<uint32_t>(one) != bits;
      }
    }
    EXPECT_EQ(wrong, 0);
  }
}

TEST(WeightsRef, FloatFormats) {
  const uint8_t half[] = {0x00, 0x3e, 0x01, 0x80}; // 1.5, -2^-24
  EXPECT_EQ(weightAt(f16, half, 0), 1.5f);
  EXPECT_EQ(weightAt(f16, half, 1), -0x1p-24f);
  const uint8_t brain[] = {0x00, 0x00, 0xc0, 0xbf}; // 0, -1.5
  EXPECT_EQ(weightAt(bf16, brain, 1), -1.5f);
  const float single[] = {1, -0.1f};
  EXPECT_EQ(weightAt(f32, reinterpret_cast<const uint8_t *>(single), 1), -0.1f);
}

/// Bytes of a row whose scales are valid and moderate.
std::vector<uint8_t> randomRow(WeightFormat format, uint64_t columns,
                               test::Random &random) {
  std::vector<uint8_t> row = random.bytes(weightRowBytes(format, columns));
  const WeightFormatInfo &info = weightFormatInfo(format);
  for (uint64_t b = 0; b < row.size(); b += info.blockBytes) {
    uint8_t *block = row.data() + b;
    if (format == q8_0) {
      block[1] = 0x2c; // f16 about 0.06
    } else if (format == q6_K) {
      block[209] = 0x2c;
    } else {
      for (uint32_t i = format == q4_0_rocmfp4_fast ? 1 : 2; i > 0; --i)
        block[info.blockBytes - i] %= 0x7f;
    }
  }
  return row;
}

TEST(WeightsRef, BlockDotMatchesDoubleSums) {
  test::Random random(7);
  for (WeightFormat format :
       {q8_0, q6_K, q4_0_rocmfp4_fast, q3_0_rocmfpx, q2_0_rocmfp2}) {
    SCOPED_TRACE(weightFormatInfo(format).name);
    const uint64_t columns = 512;
    const std::vector<uint8_t> row = randomRow(format, columns, random);
    const std::vector<uint8_t> bytes = random.bytes(columns);
    const int8_t *codes = reinterpret_cast<const int8_t *>(bytes.data());
    for (uint64_t block = 0; block < columns / 32; ++block) {
      const float d = 0.037f, acc = random.uniform();
      double want = acc, magnitude = std::fabs(acc);
      for (uint64_t i = 32 * block; i < 32 * block + 32; ++i) {
        const double term = double(weightAt(format, row.data(), i)) * codes[i];
        want += term * d;
        magnitude += std::fabs(term * d);
      }
      // Three roundings at most, of terms below the sum of magnitudes.
      EXPECT_NEAR(
          blockDot(format, row.data(), block, codes + 32 * block, d, acc), want,
          magnitude * 0x1p-22);
    }
  }
}

TEST(WeightsRef, BlockDotAddsHalvesInTurn) {
  // Each half adds half an ulp of acc, which rounds back to acc; both at once
  // would be a whole ulp.
  std::vector<uint8_t> block(10, 0xaa); // every level is 1
  block[8] = block[9] = 4;              // 2^-8
  const std::vector<int8_t> codes(32, 1);
  const float acc = 0x1p20f;
  EXPECT_EQ(blockDot(q2_0_rocmfp2, block.data(), 0, codes.data(), 1.0f, acc),
            acc);
  // One scale for the block: one addition.
  std::vector<uint8_t> fp4(17, 0x11); // every level is 1
  fp4[16] = 4;
  EXPECT_EQ(blockDot(q4_0_rocmfp4_fast, fp4.data(), 0, codes.data(), 1.0f, acc),
            acc + 0.125f);
}

} // namespace
