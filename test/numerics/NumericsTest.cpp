// The numerics contract on the demo model: one answer, and one state, whatever
// way leads to a position. DS4_NUMERICS_SEEDS=N walks N ways instead of a few
// (scripts/check.sh --long).
#include "passes/Pipeline.h"
#include "test/numerics/TestBundles.h"
#include "test/numerics/Walk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

using namespace ds4;
using namespace ds4::test;

namespace {

/// Past nine windows of 32, two of 128, and top-k of the indexer (16 of 80).
constexpr uint32_t kTokens = 320;

uint64_t seeds(uint64_t usual) {
  const char *text = std::getenv("DS4_NUMERICS_SEEDS");
  return text ? std::strtoull(text, nullptr, 10) : usual;
}

/// English text, then its beginning again.
std::vector<int32_t> textIds() {
  std::ifstream file(DS4_SOURCE_DIR "/test/e2e/Inputs/austen.ids");
  std::vector<int32_t> ids;
  for (int32_t id; file >> id;)
    ids.push_back(id);
  EXPECT_GE(ids.size(), 300u);
  for (size_t i = 0; ids.size() < kTokens; ++i)
    ids.push_back(ids[i]);
  ids.resize(kTokens);
  return ids;
}

/// Sessions of one bundle with one thread and with two.
struct Pair {
  explicit Pair(const CompileRequest &request)
      : one(openDemo(request, 1)), two(openDemo(request, 2)) {}
  std::vector<Session *> all() const { return {one.get(), two.get()}; }

  std::unique_ptr<Session> one, two;
};

/// Names of the phases that a bundle has.
std::set<std::string> phasesOf(const Session &session) {
  std::set<std::string> names;
  for (const Function &function : session.plan().functions)
    names.insert(function.name);
  return names;
}

/// Every pass that a bundle can do without.
std::vector<std::string> passNames() {
  std::vector<std::string> names;
  for (llvm::StringRef name : optionalPasses())
    names.push_back(name.str());
  return names;
}

class OneAnswer : public testing::TestWithParam<std::string> {};

TEST_P(OneAnswer, WhateverTheWay) {
  const Pair pair(demoRequest(GetParam(), GetParam()));
  ASSERT_GE(pair.one->mostRollback(), 8u);
  const bool isStrix = GetParam() == "fp8";
  std::set<std::string> phases;
  for (uint64_t seed = 0; seed < seeds(isStrix ? 2 : 1); ++seed) {
    SCOPED_TRACE(seed);
    const Reference reference = decodeAll(
        *pair.one,
        seed % 2 == 1 ? textIds() : randomIds(*pair.one, kTokens, seed));
    Walker walker(reference, pair.all(), seed);
    ASSERT_EQ(walker.toTheEnd(), "");
    phases.insert(walker.phases.begin(), walker.phases.end());
  }
  // A phase that the bundle has and no step ran in would be untested.
  EXPECT_EQ(phases, phasesOf(*pair.one));
}

INSTANTIATE_TEST_SUITE_P(Storage, OneAnswer,
                         testing::Values("fp8", "f16", "f32"),
                         [](const auto &info) { return info.param; });

TEST(Numerics, EveryPlaceOfACut) {
  const Pair pair(demoRequest("fp8", "fp8"));
  const Reference reference =
      decodeAll(*pair.one, randomIds(*pair.one, kTokens, 11));
  Walker walker(reference, pair.all(), 11);
  // The window is full, a window of 128 and one of 4 end, the second of 128.
  constexpr uint32_t kRanges[][2] = {{30, 34}, {124, 131}, {252, 259}};
  for (const auto &[first, last] : kRanges) {
    EXPECT_EQ(walker.acrossEach(first, last), "");
    for (uint32_t end = first; end <= last; ++end)
      EXPECT_TRUE(walker.ends.contains(end)) << end;
  }
}

class WithoutPass : public testing::TestWithParam<std::string> {};

TEST_P(WithoutPass, SameBits) {
  const CompileRequest all = demoRequest("fp8", "fp8");
  CompileRequest request = demoRequest("without_" + GetParam(), "fp8");
  request.profile.disablePass = GetParam();
  const std::unique_ptr<Session> whole = openDemo(all, 1);
  const std::unique_ptr<Session> without = openDemo(request, 2);
  static const Reference reference =
      decodeAll(*whole, randomIds(*whole, kTokens, 23));
  // A sequence moves between the two bundles.
  Walker walker(reference, {without.get(), whole.get()}, 23);
  EXPECT_EQ(walker.toTheEnd(), "");
}

INSTANTIATE_TEST_SUITE_P(Numerics, WithoutPass, testing::ValuesIn(passNames()),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

/// What a kernel would do that breaks the contract, and that the walks see it.
struct Mistake {
  std::string name, kv;
  DeviceEdit edit;
};

class Mistakes : public testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, AreFound) {
  const CompileRequest request = demoRequest(GetParam().name, GetParam().kv);
  compileEdited(request, GetParam().edit);
  if (HasFatalFailure())
    return;
  std::unique_ptr<Session> session = openDemo(request, 1);
  const Reference reference =
      decodeAll(*session, randomIds(*session, kTokens, 5));
  Walker walker(reference, {session.get()}, 5);
  EXPECT_THAT(walker.toTheEnd(), testing::HasSubstr("differ"));
}

const Mistake kMistakes[] = {
    // Where tokens share decoded weights, the tree of a product begins at
    // another segment.
    {"tree_by_width",
     "fp8",
     {"products.h", "      sum = int8_product(segment_sums(shares), books);",
      "      for (u32 c = 0; c < kColumns; ++c)\n"
      "        shares[c] = shfl(shares[c], lane() / 8 * 8 + (lane() + 1) % "
      "8);\n"
      "      sum = int8_product(segment_sums(shares), books);"}},
    // Tiles of attention that depend on where the step begins.
    {"tiles_by_step",
     "fp8",
     {"attend.hip", "first / kTile * kTile + kTile",
      "first + kTile - (first + static_cast<u32>(step->start)) % kTile"}},
    // Windows of a longer step pooled the other way round: seen in the state,
    // where no rounding to FP8 hides it.
    {"window_backwards",
     "f32",
     {"compress.hip", "for (u32 t = begin; t < end; ++t) {\n      const u32 at",
      "for (u32 i = begin; i < end; ++i) {\n"
      "      const u32 t = step->count > 1 ? begin + end - 1 - i : i;\n"
      "      const u32 at"}},
};

INSTANTIATE_TEST_SUITE_P(Numerics, Mistakes, testing::ValuesIn(kMistakes),
                         [](const auto &info) { return info.param.name; });

} // namespace
