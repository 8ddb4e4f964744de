// Which tensor gets the bytes.
#include "quant/TypeBudget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace ds4;
using namespace ds4::quant;
using testing::ElementsAre;
using testing::HasSubstr;

static constexpr WeightFormat kTwo = WeightFormat::q2_0_rocmfp2,
                              kThree = WeightFormat::q3_0_rocmfpx,
                              kFour = WeightFormat::q4_0_rocmfp4_fast;

TEST(TypeBudget, BytesGoWhereTheyLowerErrorsMost) {
  const std::vector<TypeChoice> small = {
      {kTwo, 10, 0.10}, {kThree, 14, 0.03}, {kFour, 18, 0.01}};
  const std::vector<TypeChoice> large = {
      {kFour, 180, 0.01}, {kTwo, 100, 0.20}, {kThree, 140, 0.04}};
  const std::vector<std::vector<TypeChoice>> tensors = {small, large};
  const auto chosen = [&](uint64_t budget) {
    return *chooseTypes(tensors, budget);
  };
  EXPECT_THAT(chosen(110), ElementsAre(0, 1));
  // 0.07 for 4 bytes, 0.02 for 4, 0.16 for 40, 0.03 for 40.
  EXPECT_THAT(chosen(114), ElementsAre(1, 1));
  EXPECT_THAT(chosen(118), ElementsAre(2, 1));
  EXPECT_THAT(chosen(157), ElementsAre(2, 1));
  EXPECT_THAT(chosen(158), ElementsAre(2, 2));
  EXPECT_THAT(chosen(197), ElementsAre(2, 2));
  EXPECT_THAT(chosen(198), ElementsAre(2, 0));
  EXPECT_THAT(chosen(1000), ElementsAre(2, 0));
}

TEST(TypeBudget, TakesASmallerStepWhereTheBestDoesNotFit) {
  const std::vector<std::vector<TypeChoice>> tensors = {
      {{kTwo, 100, 0.5}, {kThree, 140, 0.1}},
      {{kTwo, 10, 0.1}, {kThree, 14, 0.09}}};
  EXPECT_THAT(*chooseTypes(tensors, 120), ElementsAre(0, 1));
}

TEST(TypeBudget, BytesThatHelpNothingAreLeft) {
  const std::vector<std::vector<TypeChoice>> tensors = {
      {{kTwo, 10, 0}, {kThree, 14, 0}}};
  EXPECT_THAT(*chooseTypes(tensors, 20), ElementsAre(0));
}

TEST(TypeBudget, RefusesLessThanTheLeast) {
  const std::vector<std::vector<TypeChoice>> tensors = {
      {{kThree, 14, 0.1}, {kTwo, 10, 0.5}}};
  const auto chosen = chooseTypes(tensors, 9);
  ASSERT_FALSE(chosen);
  EXPECT_THAT(chosen.error().text, HasSubstr("10 bytes at least, of which 9"));
}
