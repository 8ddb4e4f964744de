// WeightsTest.cpp - the device decoders, compiled by the host compiler:
// elements against the published decoders' vectors, block products against the
// oracle, bit for bit. Each format's header declares the same names, hence one
// namespace a format.
#include "ops/Reference.h"
#include "ops/prelude.h"
#include "ops/test/RandomFloats.h"
#include "ops/weights/codes.h"
#include "ops/weights/formats.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>

namespace device_f32 {
#include "ops/weights/f32.h"
}
namespace device_f16 {
#include "ops/weights/f16.h"
}
namespace device_bf16 {
#include "ops/weights/bf16.h"
}
namespace device_q8_0 {
#include "ops/weights/q8_0.h"
}
namespace device_q6_K {
#include "ops/weights/q6_K.h"
}
namespace device_fp4 {
#include "ops/weights/q4_0_rocmfp4_fast.h"
}
namespace device_fp3 {
#include "ops/weights/q3_0_rocmfpx.h"
}
namespace device_fp2 {
#include "ops/weights/q2_0_rocmfp2.h"
}
namespace device_mix3 {
#include "ops/weights/q3_1_rocmfp3_mix.h"
}
namespace device_mix2 {
#include "ops/weights/q2_1_rocmfp2_mix.h"
}

namespace {

using ds4::WeightFormat;

/// A format's device functions.
struct Decoder {
  WeightFormat format;
  u32 blockElements, blockBytes;
  float (*weightAt)(const u8 *row, u32 i, const float *books);
  float (*blockDot)(const u8 *row, u32 b, const i8 *codes, float d, float acc);
};

#define DECODER(space, format, dot)                                            \
  Decoder {                                                                    \
    WeightFormat::format, space::kBlockElements, space::kBlockBytes,           \
        space::weight_at, dot                                                  \
  }

const Decoder kDecoders[] = {
    DECODER(device_f32, f32, nullptr),
    DECODER(device_f16, f16, nullptr),
    DECODER(device_bf16, bf16, nullptr),
    DECODER(device_q8_0, q8_0, device_q8_0::block_dot),
    DECODER(device_q6_K, q6_K, device_q6_K::block_dot),
    DECODER(device_fp4, q4_0_rocmfp4_fast, device_fp4::block_dot),
    DECODER(device_fp3, q3_0_rocmfpx, device_fp3::block_dot),
    DECODER(device_fp2, q2_0_rocmfp2, device_fp2::block_dot),
    DECODER(device_mix3, q3_1_rocmfp3_mix, nullptr),
    DECODER(device_mix2, q2_1_rocmfp2_mix, nullptr),
};

const Decoder &decoder(WeightFormat format) {
  for (const Decoder &candidate : kDecoders)
    if (candidate.format == format)
      return candidate;
  ADD_FAILURE() << "no device decoder";
  return kDecoders[0];
}

std::vector<u8> readData(const std::string &name) {
  std::ifstream file(DS4_SOURCE_DIR "/ops/test/data/" + name, std::ios::binary);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Compares every element of `experts` rows with the published values.
void checkVectors(WeightFormat format, const std::string &name,
                  u32 experts = 1) {
  SCOPED_TRACE(name);
  const Decoder &device = decoder(format);
  const std::vector<u8> blocks = readData(name + "blocks.bin");
  const std::vector<u8> values = readData(name + "values.bin");
  std::vector<float> books;
  if (experts > 1) {
    const std::string books_name = name.substr(0, 7) + "codebooks.bin";
    const std::vector<u8> halves = readData(books_name);
    for (size_t i = 0; i < halves.size(); i += 2)
      books.push_back(f32_from_bf16(load_u16(&halves[i])));
  }
  const size_t rowBytes = blocks.size() / experts;
  const u32 columns = static_cast<u32>(values.size() / 4 / experts);
  ASSERT_EQ(rowBytes, ds4::weightRowBytes(format, columns));
  for (u32 expert = 0; expert < experts; ++expert)
    for (u32 i = 0; i < columns; ++i) {
      const float got =
          device.weightAt(blocks.data() + expert * rowBytes, i,
                          books.data() + books.size() / experts * expert);
      ASSERT_EQ(bits_of(got), load_u32(&values[4 * (expert * columns + i)]))
          << "expert " << expert << ", element " << i;
    }
}

TEST(Weights, ElementsEqualThePublishedValues) {
  checkVectors(WeightFormat::q8_0, "q8_0.");
  checkVectors(WeightFormat::q6_K, "q6_K.");
  checkVectors(WeightFormat::q4_0_rocmfp4_fast, "fp4_fast.dequant.");
  checkVectors(WeightFormat::q3_0_rocmfpx, "fp3.dequant.");
  checkVectors(WeightFormat::q2_0_rocmfp2, "fp2.dequant.");
  checkVectors(WeightFormat::q3_1_rocmfp3_mix, "mix105.dequant.", 4);
  checkVectors(WeightFormat::q2_1_rocmfp2_mix, "mix106.dequant.", 4);
}

TEST(Weights, ElementsAndProductsEqualTheOracles) {
  constexpr u32 kColumns = 1024;
  ds4::test::Random random(3);
  std::vector<float> books(16);
  for (float &level : books)
    level = f32_from_bf16(bf16_from_f32(random.uniform()));
  for (const Decoder &device : kDecoders) {
    SCOPED_TRACE(ds4::weightFormatInfo(device.format).name);
    for (int repeat = 0; repeat < 20; ++repeat) {
      const std::vector<u8> row =
          random.bytes(ds4::weightRowBytes(device.format, kColumns));
      const std::vector<u8> codes = random.bytes(kColumns);
      for (u32 i = 0; i < kColumns; ++i) {
        const float want =
            ds4::ref::weightAt(device.format, row.data(), i, books.data());
        const float got = device.weightAt(row.data(), i, books.data());
        if (want != want)
          ASSERT_NE(got, got) << i;
        else
          ASSERT_EQ(bits_of(got), bits_of(want)) << i;
      }
      if (!device.blockDot)
        continue;
      for (u32 b = 0; b < kColumns / 32; ++b) {
        const i8 *at = reinterpret_cast<const i8 *>(codes.data()) + 32 * b;
        const float d = random.uniform(), acc = 100.0f * random.uniform();
        const float want =
            ds4::ref::blockDot(device.format, row.data(), b, at, d, acc);
        const float got = device.blockDot(row.data(), b, at, d, acc);
        if (want != want)
          ASSERT_NE(got, got) << b;
        else
          ASSERT_EQ(bits_of(got), bits_of(want)) << b;
      }
    }
  }
}

TEST(Weights, LevelsOfCodesAreTheRecords) {
  for (i32 code = 0; code < 16; ++code)
    EXPECT_EQ(fp4_level(code), format_q4_0_rocmfp4_fast::kLevels[code]);
  for (i32 code = 0; code < 8; ++code)
    EXPECT_EQ(fp3_level(code), format_q3_0_rocmfpx::kLevels[code]);
}

TEST(Weights, BlocksAreThoseOfTheFormatTable) {
  for (const ds4::WeightFormatInfo &info : ds4::weightFormats()) {
    if (info.format == WeightFormat::i32)
      continue; // tables of indices, no weights
    const Decoder &device = decoder(info.format);
    EXPECT_EQ(device.blockElements, info.blockElements) << info.name;
    EXPECT_EQ(device.blockBytes, info.blockBytes) << info.name;
  }
}

} // namespace
