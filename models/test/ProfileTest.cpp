// Profiles: every key both ways, and what is refused with which words.
#include "models/Profile.h"

#include <gtest/gtest.h>

using namespace ds4;

static std::string errorOf(const Result<Profile> &profile) {
  return profile ? "no error" : profile.error().text;
}

TEST(Profile, EveryKeyRoundTripsThroughItsText) {
  Profile profile;
  for (const auto &[key, value] : profile.text())
    EXPECT_TRUE(profile.set(key, value, "test")) << key;
  EXPECT_EQ(profile.text().size(), profileKeys().size());
}

TEST(Profile, ReadsToml) {
  Result<Profile> profile = parseProfile(
      "context = 4096\nsimulate = false\nkv = \"f32\"\n", "a.toml");
  ASSERT_TRUE(profile) << errorOf(profile);
  EXPECT_EQ(profile->context, 4096);
  EXPECT_FALSE(profile->simulate);
  EXPECT_EQ(profile->kv, "f32");
}

TEST(Profile, UnknownKeySuggestsTheNearest) {
  EXPECT_EQ(errorOf(parseProfile("\ncontexts = 4096\n", "a.toml")),
            "a.toml:2: unknown key 'contexts'; did you mean 'context'?");
}

TEST(Profile, ValueOutOfRangeListsTheChoices) {
  EXPECT_EQ(errorOf(parseProfile("kv = \"q4\"", "a.toml")),
            "a.toml:1: kv = q4 is not one of fp8|f16|f32");
  EXPECT_EQ(errorOf(parseProfile("verify_width = 10", "a.toml")),
            "a.toml:1: verify_width = 10 is not one of 1 to 9");
}

TEST(Profile, SyntaxErrorHasItsLine) {
  EXPECT_TRUE(errorOf(parseProfile("\n\ncontext = = 3", "a.toml"))
                  .starts_with("a.toml:3: "));
}

TEST(Profile, TablesAreNoValues) {
  EXPECT_EQ(errorOf(parseProfile("[context]\na = 1", "a.toml")),
            "a.toml:1: context is neither text, integer nor boolean");
}

TEST(Profile, Fp8RowsNeedTheSimulation) {
  Profile profile;
  profile.simulate = false;
  ASSERT_FALSE(profile.check());
  profile.kv = "f16";
  EXPECT_TRUE(profile.check());
}
