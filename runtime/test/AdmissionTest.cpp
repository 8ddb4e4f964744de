// AdmissionTest.cpp - what is counted, and which setting a refusal names.
#include "runtime/Admission.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <fstream>
#include <unistd.h>

namespace ds4 {
namespace {

TEST(AdmissionTest, CountsEverythingThatIsAllocated) {
  Plan plan;
  plan.weights.push_back({"w", WeightFormat::f16, {4, 8}, 64, 0});
  plan.books.push_back({"e", WeightFormat::q3_1_rocmfp3_mix, 4, false});
  plan.books.push_back({"f", WeightFormat::q2_1_rocmfp2_mix, 3, true});
  plan.rotations.push_back({"e", 4});
  plan.states.push_back({"kv", 100, 10, "fp8", 8});
  plan.tables.push_back({"rope", 50, 6});
  plan.functions.resize(2);
  plan.functions[0].arenaBytes = 300;
  plan.functions[1].arenaBytes = 200;
  plan.weights.push_back({"p",
                          WeightFormat::q4_0_rocmfp4_fast,
                          {3, 256},
                          408,
                          0,
                          3,
                          WeightLayout::lanes}); // rows padded to 144
  MemoryNeed need = memoryNeed(plan, 7);
  EXPECT_EQ(need.weights,
            64u + 3 * 144 + 4 * 2 * 8 * 4 + 3 * 2 * (4 + 4) + 4 * 4);
  EXPECT_EQ(need.context, 100u * 10 + 50 * 6 * 4);
  EXPECT_EQ(need.arena, 300u);
  EXPECT_EQ(need.total(), need.weights + need.context + 307);
}

TEST(AdmissionTest, NamesTheOneSettingToChange) {
  MemoryNeed need{100'000'000, 80'000'000, 1'000'000, 1'000'000};
  EXPECT_TRUE(admit(need, {need.total()}, 8192));
  EXPECT_TRUE(admit(need, {0}, 8192)); // unknown

  Status context = admit(need, {142'000'000}, 8192);
  ASSERT_FALSE(context);
  EXPECT_EQ(context.error().code, ErrorCode::outOfMemory);
  // 40 of 80 MB are left for the context: half of 8192 tokens.
  EXPECT_NE(context.error().text.find("ds4c --context=4096"), std::string::npos)
      << context.error().text;
  EXPECT_NE(context.error().text.find("182.0 MB needed"), std::string::npos);

  Status weights = admit(need, {90'000'000}, 8192);
  ASSERT_FALSE(weights);
  EXPECT_NE(weights.error().text.find("smaller weights"), std::string::npos);

  need.arena = 500'000'000;
  Status arena = admit(need, {200'000'000}, 8192);
  ASSERT_FALSE(arena);
  EXPECT_NE(arena.error().text.find("--prefill-chunk"), std::string::npos);
}

TEST(AdmissionTest, NamesTheLimitOfMappingsWhereMemoryIsShared) {
  namespace fs = std::filesystem;
  const fs::path sys =
      fs::path(testing::TempDir()) / fmt::format("admission_{}", getpid());
  const fs::path card = sys / "class/drm/card1/device";
  fs::create_directories(card);
  fs::create_directories(sys / "class/drm/renderD128");
  fs::create_directories(sys / "module/ttm/parameters");
  std::ofstream(card / "mem_info_gtt_total") << (uint64_t(64) << 30);
  std::ofstream(card / "mem_info_gtt_used") << (uint64_t(1) << 30);
  std::ofstream(sys / "module/ttm/parameters/pages_limit") << 16777216;
  constexpr uint64_t kHost = uint64_t(123) << 30, kMost = kHost - (3ull << 30);

  const MemoryLimit limit = sharedMemoryLimit(0, kHost, sys);
  EXPECT_EQ(limit.bytes, uint64_t(63) << 30);
  const Status refused = admit({98'290'000'000, 1, 1, 1}, limit, 4096);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("ttm.pages_limit=31457280 (it is "
                                      "16777216)"),
            std::string::npos)
      << refused.error().text;
  // More than the machine has: no setting helps.
  const Status never = admit({kHost, 1, 1, 1}, limit, 4096);
  ASSERT_FALSE(never);
  EXPECT_EQ(never.error().text.find("ttm"), std::string::npos);

  // The driver knows of less; then of more, and so does the kernel.
  EXPECT_EQ(sharedMemoryLimit(1 << 30, kHost, sys).bytes, uint64_t(1) << 30);
  std::ofstream(card / "mem_info_gtt_total") << (uint64_t(200) << 30);
  const MemoryLimit whole = sharedMemoryLimit(uint64_t(300) << 30, kHost, sys);
  EXPECT_EQ(whole.bytes, kMost);
  EXPECT_EQ(whole.setting, "");
  fs::remove_all(sys);
  EXPECT_EQ(sharedMemoryLimit(0, kHost, sys).bytes, kMost);
}

TEST(AdmissionTest, KnowsTheMachine) {
  EXPECT_GT(availableMemory(), uint64_t(1) << 20);
  EXPECT_GT(peakMemory(), uint64_t(1) << 20);
}

} // namespace
} // namespace ds4
