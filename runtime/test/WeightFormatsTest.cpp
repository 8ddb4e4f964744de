// The format table against facts that are written down elsewhere.
#include "runtime/WeightFormats.h"

#include <gtest/gtest.h>

using namespace ds4;

TEST(WeightFormats, IdsAndNamesFindEachOther) {
  for (const WeightFormatInfo &info : weightFormats()) {
    EXPECT_TRUE(weightFormatMayBe(info.format, info.typeId));
    // Other readings of an id stand behind the usual one.
    const bool other = info.format == WeightFormat::q2_0_rocmfp2_affine ||
                       info.format == WeightFormat::q2_0_rocmfp2_fp2s;
    EXPECT_EQ(weightFormatFromId(info.typeId),
              other ? WeightFormat::q2_0_rocmfp2 : info.format);
    EXPECT_EQ(weightFormatFromName(info.name), info.format);
  }
  EXPECT_EQ(weightFormatFromId(31), std::nullopt);
  EXPECT_EQ(weightFormatFromName("q9_9"), std::nullopt);
}

TEST(WeightFormats, ReadingsOfType107) {
  for (const char *name : {"dual", "affine", "fp2s", "s40"}) {
    const std::optional<Fp2Reading> reading = fp2ReadingFromName(name);
    ASSERT_TRUE(reading) << name;
    const WeightFormat format = fp2Format(*reading);
    EXPECT_EQ(fp2ReadingName(format), name);
    EXPECT_TRUE(weightFormatMayBe(format, 107)) << name;
    EXPECT_FALSE(weightFormatMayBe(format, 106)) << name;
    EXPECT_TRUE(*reading == Fp2Reading::dual ||
                weightFormatInfo(format).name.ends_with(name))
        << name;
  }
  EXPECT_EQ(fp2ReadingFromName("s4"), std::nullopt);
  EXPECT_EQ(weightFormatFromId(111), WeightFormat::q2_0_rocmfp2_s40);
  EXPECT_FALSE(weightFormatMayBe(WeightFormat::q2_0_rocmfp2, 111));
}

TEST(WeightFormats, RowBytes) {
  // ROCmFP4_FAST has 4.25 bits a weight, ROCmFP2 2.5, Q6_K 6.5625.
  EXPECT_EQ(weightRowBytes(WeightFormat::q4_0_rocmfp4_fast, 4096),
            4096u * 425 / 800);
  EXPECT_EQ(weightRowBytes(WeightFormat::q2_1_rocmfp2_mix, 2048), 640u);
  EXPECT_EQ(weightRowBytes(WeightFormat::q6_K, 4096), 3360u);
}
