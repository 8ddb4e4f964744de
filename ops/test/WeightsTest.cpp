// WeightsTest.cpp - the device decoders, compiled by the host compiler:
// elements against the published decoders' vectors, block products against the
// oracle, bit for bit. Each format's header declares the same names, hence one
// namespace a format.
#include "ops/Reference.h"
#include "ops/prelude.h"
#include "ops/test/RandomFloats.h"
#include "ops/test/WeightVectors.h"
#include "ops/weights/codes.h"
#include "ops/weights/even_signs.h"
#include "ops/weights/formats.h"
#include "ops/weights/grids.h"
#include "ops/weights/k_pairs.h"

#include <cmath>

namespace device_f32 {
#include "ops/weights/f32.h"
}
namespace device_f16 {
#include "ops/weights/f16.h"
}
namespace device_bf16 {
#include "ops/weights/bf16.h"
}
namespace device_q4_0 {
#include "ops/weights/q4_0.h"
}
namespace device_q4_1 {
#include "ops/weights/q4_1.h"
}
namespace device_q5_0 {
#include "ops/weights/q5_0.h"
}
namespace device_q5_1 {
#include "ops/weights/q5_1.h"
}
namespace device_q8_0 {
#include "ops/weights/q8_0.h"
}
namespace device_q2_K {
#include "ops/weights/q2_K.h"
}
namespace device_q3_K {
#include "ops/weights/q3_K.h"
}
namespace device_q4_K {
#include "ops/weights/q4_K.h"
}
namespace device_q5_K {
#include "ops/weights/q5_K.h"
}
namespace device_q6_K {
#include "ops/weights/q6_K.h"
}
namespace device_iq2_xxs {
#include "ops/weights/iq2_xxs.h"
}
namespace device_iq3_xxs {
#include "ops/weights/iq3_xxs.h"
}
namespace device_iq4_nl {
#include "ops/weights/iq4_nl.h"
}
namespace device_iq3_s {
#include "ops/weights/iq3_s.h"
}
namespace device_iq4_xs {
#include "ops/weights/iq4_xs.h"
}
namespace device_mxfp4 {
#include "ops/weights/mxfp4.h"
}
namespace device_q4_0_rocmfp4 {
#include "ops/weights/q4_0_rocmfp4.h"
}
namespace device_q4_0_rocmfp4_fast {
#include "ops/weights/q4_0_rocmfp4_fast.h"
}
namespace device_q6_0_rocmfpx {
#include "ops/weights/q6_0_rocmfpx.h"
}
namespace device_q8_0_rocmfpx {
#include "ops/weights/q8_0_rocmfpx.h"
}
namespace device_q3_0_rocmfpx {
#include "ops/weights/q3_0_rocmfpx.h"
}
namespace device_q2_0_rocmfp2 {
#include "ops/weights/q2_0_rocmfp2.h"
}
namespace device_q2_0_rocmfp2_affine {
#include "ops/weights/q2_0_rocmfp2_affine.h"
}
namespace device_q2_0_rocmfp2_fp2s {
#include "ops/weights/q2_0_rocmfp2_fp2s.h"
}
namespace device_q2_0_rocmfp2_s40 {
#include "ops/weights/q2_0_rocmfp2_s40.h"
}
namespace device_q3_1_rocmfp3_mix {
#include "ops/weights/q3_1_rocmfp3_mix.h"
}
namespace device_q2_1_rocmfp2_mix {
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

#define DECODER(format, dot)                                                   \
  Decoder {                                                                    \
    WeightFormat::format, device_##format::kBlockElements,                     \
        device_##format::kBlockBytes, device_##format::weight_at, dot          \
  }
#define INT8_DECODER(format) DECODER(format, device_##format::block_dot)

const Decoder kDecoders[] = {
    DECODER(f32, nullptr),
    DECODER(f16, nullptr),
    DECODER(bf16, nullptr),
    INT8_DECODER(q4_0),
    INT8_DECODER(q4_1),
    INT8_DECODER(q5_0),
    INT8_DECODER(q5_1),
    INT8_DECODER(q8_0),
    INT8_DECODER(q2_K),
    INT8_DECODER(q3_K),
    INT8_DECODER(q4_K),
    INT8_DECODER(q5_K),
    INT8_DECODER(q6_K),
    INT8_DECODER(iq2_xxs),
    INT8_DECODER(iq3_xxs),
    INT8_DECODER(iq4_nl),
    INT8_DECODER(iq3_s),
    INT8_DECODER(iq4_xs),
    INT8_DECODER(mxfp4),
    INT8_DECODER(q4_0_rocmfp4),
    INT8_DECODER(q4_0_rocmfp4_fast),
    INT8_DECODER(q6_0_rocmfpx),
    INT8_DECODER(q8_0_rocmfpx),
    INT8_DECODER(q3_0_rocmfpx),
    INT8_DECODER(q2_0_rocmfp2),
    INT8_DECODER(q2_0_rocmfp2_affine),
    INT8_DECODER(q2_0_rocmfp2_fp2s),
    INT8_DECODER(q2_0_rocmfp2_s40),
    DECODER(q3_1_rocmfp3_mix, nullptr),
    DECODER(q2_1_rocmfp2_mix, nullptr),
};

const Decoder &decoder(WeightFormat format) {
  for (const Decoder &candidate : kDecoders)
    if (candidate.format == format)
      return candidate;
  ADD_FAILURE() << "no device decoder";
  return kDecoders[0];
}

TEST(Weights, ElementsEqualThePublishedValues) {
  for (const ds4::test::WeightVectors &v : ds4::test::kWeightVectors) {
    SCOPED_TRACE(v.prefix);
    const Decoder &device = decoder(v.format);
    const std::string prefix = v.prefix;
    const std::vector<u8> blocks =
        ds4::test::kOpsVectors.bytes(prefix + "blocks.bin");
    const std::vector<u8> values =
        ds4::test::kOpsVectors.bytes(prefix + "values.bin");
    const std::vector<float> books = ds4::test::booksOf(v);
    const size_t rowBytes = blocks.size() / v.rows;
    const u32 columns = static_cast<u32>(values.size() / 4 / v.rows);
    ASSERT_EQ(rowBytes, ds4::weightRowBytes(v.format, columns));
    for (u32 row = 0; row < v.rows; ++row)
      for (u32 i = 0; i < columns; ++i) {
        const float got =
            device.weightAt(blocks.data() + row * rowBytes, i,
                            books.data() + books.size() / v.rows * row);
        ASSERT_EQ(bits_of(got), load_u32(&values[4 * (row * columns + i)]))
            << "row " << row << ", element " << i;
      }
  }
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
        const float want = ds4::ref::blockDot(
            ds4::ref::weightBlock(device.format, row.data(), b), at, d, acc);
        const float got = device.blockDot(row.data(), b, at, d, acc);
        if (want != want)
          ASSERT_NE(got, got) << b;
        else
          ASSERT_EQ(bits_of(got), bits_of(want)) << b;
      }
    }
  }
}

TEST(Weights, ProductsWithInt8BooksEqualTheOracles) {
  constexpr u32 kColumns = 1024;
  ds4::test::Random random(4);
  const auto compare = [&](WeightFormat format, auto blockDot) {
    SCOPED_TRACE(ds4::weightFormatInfo(format).name);
    for (int repeat = 0; repeat < 20; ++repeat) {
      // Any bytes: levels of both signs, invalid scales.
      std::vector<u8> books = random.bytes(ds4::bookBytes(format, true));
      const u64 perBook = books.size() / 2;
      const float ratio = std::ldexp(1.0f, repeat % 10 - 7);
      std::memcpy(&books[2 * perBook - 4], &ratio, 4);
      const std::vector<u8> row =
          random.bytes(ds4::weightRowBytes(format, kColumns));
      const std::vector<u8> codes = random.bytes(kColumns);
      for (u32 b = 0; b < kColumns / 32; ++b) {
        const i8 *at = reinterpret_cast<const i8 *>(codes.data()) + 32 * b;
        const float d = random.uniform(), acc = 100.0f * random.uniform();
        ASSERT_EQ(
            bits_of(blockDot(row.data(), b, at, d, acc, books.data())),
            bits_of(ds4::ref::blockDot(
                ds4::ref::weightBlock(format, row.data(), b, books.data()), at,
                d, acc)))
            << b;
      }
    }
  };
  compare(WeightFormat::q3_1_rocmfp3_mix, device_q3_1_rocmfp3_mix::block_dot);
  compare(WeightFormat::q2_1_rocmfp2_mix, device_q2_1_rocmfp2_mix::block_dot);
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
