// WeightLayoutTest.cpp - layout `lanes`: the address of every byte against the
// formula, for every format and rows from the shortest up; there and back.
#include "runtime/WeightLayout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

using namespace ds4;
using enum WeightFormat;

namespace {

using Bytes = std::vector<std::byte>;

Bytes randomBytes(uint64_t count) {
  std::mt19937 random(static_cast<unsigned>(count));
  Bytes bytes(count);
  for (std::byte &byte : bytes)
    byte = static_cast<std::byte>(random());
  return bytes;
}

/// Offset in a packed row of byte `at` of block `block`, from the formula of
/// the header and docs/formats.md alone.
uint64_t offsetOf(const WeightFormatInfo &info, uint64_t elements,
                  uint64_t block, uint64_t at) {
  const uint64_t segment = elements / info.blockElements / 8;
  uint64_t chunk = 1; // most blocks that divide a segment and 256 elements
  for (uint64_t n = 1; n * info.blockElements <= 256; ++n)
    if (segment % n == 0 && 256 / info.blockElements % n == 0)
      chunk = n;
  const bool isSecond = at >= info.split;
  const uint64_t part = isSecond ? info.blockBytes - info.split : info.split;
  uint64_t unit = 16;
  while (chunk * part % unit != 0)
    unit /= 2;
  const uint64_t inSegment =
      block % segment * part + at - (isSecond ? info.split : 0);
  const uint64_t begin =
      isSecond ? (8 * segment * info.split + 15) / 16 * 16 : 0;
  return begin + (8 * (inSegment / unit) + block / segment) * unit +
         inSegment % unit;
}

void checkRow(const WeightFormatInfo &info, uint64_t elements) {
  SCOPED_TRACE(std::string(info.name) + " " + std::to_string(elements));
  const std::optional<LaneRow> row = LaneRow::of(info.format, elements);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->fileBytes, weightRowBytes(info.format, elements));
  EXPECT_EQ(row->bytes,
            deviceRowBytes(info.format, WeightLayout::lanes, elements));
  EXPECT_GE(row->bytes, row->fileBytes);
  EXPECT_LE(row->bytes, row->fileBytes * 9 / 8);
  EXPECT_EQ(row->bytes % 16, 0u);

  const Bytes file = randomBytes(row->fileBytes);
  Bytes packed(row->bytes, std::byte{0xaa}), expected(row->bytes);
  row->pack(file.data(), packed.data());
  for (uint64_t i = 0; i < file.size(); ++i)
    expected[offsetOf(info, elements, i / info.blockBytes,
                      i % info.blockBytes)] = file[i];
  EXPECT_EQ(packed, expected);
  Bytes back(row->fileBytes);
  row->unpack(packed.data(), back.data());
  EXPECT_EQ(back, file);
}

TEST(WeightLayout, EveryByteIsWhereTheFormulaSays) {
  for (const WeightFormatInfo &info : weightFormats())
    for (uint64_t segment : {1, 2, 3, 4, 5, 8, 12, 16, 32})
      if (const uint64_t row = 8 * segment * info.blockElements;
          info.quantised && row % info.rowMultiple == 0)
        checkRow(info, row);
}

TEST(WeightLayout, RowsWithoutLanes) {
  EXPECT_FALSE(LaneRow::of(f16, 4096));
  EXPECT_FALSE(LaneRow::of(q8_0, 0));
  EXPECT_FALSE(LaneRow::of(q8_0, 128));  // 4 blocks
  EXPECT_FALSE(LaneRow::of(q8_0, 288));  // 9 blocks
  EXPECT_FALSE(LaneRow::of(q8_0, 260));  // no whole blocks
  EXPECT_FALSE(LaneRow::of(q6_K, 1024)); // a super-block is two segments
  EXPECT_FALSE(LaneRow::of(q8_0, uint64_t(1) << 40));
  EXPECT_TRUE(LaneRow::of(q8_0, 256));
  EXPECT_TRUE(LaneRow::of(q6_K, 2048));
}

TEST(WeightLayout, RowsOfFlashHaveNoPadding) {
  for (WeightFormat format : {q8_0, q4_0_rocmfp4_fast, q4_0_rocmfp4,
                              q3_1_rocmfp3_mix, q2_1_rocmfp2_mix, q2_0_rocmfp2})
    for (uint64_t elements : {1024, 2048, 4096, 8192, 16384}) {
      const std::optional<LaneRow> row = LaneRow::of(format, elements);
      ASSERT_TRUE(row);
      EXPECT_EQ(row->bytes, row->fileBytes);
      for (const LaneRow::Plane &plane : row->planes)
        EXPECT_GE(plane.unit, plane.partBytes >= 8 ? 16u : 4u);
    }
}

TEST(WeightLayout, PacksRowsOneBehindTheOther) {
  const LaneRow row = *LaneRow::of(q4_0_rocmfp4_fast, 256);
  constexpr uint64_t kRows = 7;
  const Bytes file = randomBytes(kRows * row.fileBytes);
  Bytes expected(kRows * row.bytes), packed(expected.size());
  for (uint64_t i = 0; i < kRows; ++i)
    row.pack(&file[i * row.fileBytes], &expected[i * row.bytes]);
  row.pack(file.data(), kRows, packed.data());
  EXPECT_EQ(packed, expected);
}

TEST(WeightLayout, Names) {
  for (WeightLayout layout : {WeightLayout::file, WeightLayout::lanes})
    EXPECT_EQ(weightLayoutFromName(weightLayoutName(layout)), layout);
  EXPECT_FALSE(weightLayoutFromName("planes"));
}

} // namespace
