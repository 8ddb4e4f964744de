// The format table against facts that are written down elsewhere.
#include "runtime/WeightFormats.h"

#include <gtest/gtest.h>

using namespace ds4;

TEST(WeightFormats, IdsAndNamesFindEachOther) {
  for (const WeightFormatInfo &info : weightFormats()) {
    EXPECT_EQ(weightFormatFromId(info.typeId), info.format);
    EXPECT_EQ(weightFormatFromName(info.name), info.format);
  }
  EXPECT_EQ(weightFormatFromId(31), std::nullopt);
  EXPECT_EQ(weightFormatFromName("q9_9"), std::nullopt);
}

TEST(WeightFormats, RowBytes) {
  // ROCmFP4_FAST has 4.25 bits a weight, ROCmFP2 2.5, Q6_K 6.5625.
  EXPECT_EQ(weightRowBytes(WeightFormat::q4_0_rocmfp4_fast, 4096),
            4096u * 425 / 800);
  EXPECT_EQ(weightRowBytes(WeightFormat::q2_1_rocmfp2_mix, 2048), 640u);
  EXPECT_EQ(weightRowBytes(WeightFormat::q6_K, 4096), 3360u);
}
