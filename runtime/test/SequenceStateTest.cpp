// Which rows count at a position, and the saved form: what restores, what is
// refused.
#include "runtime/SequenceState.h"

#include "runtime/test/FakeDevice.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <unistd.h>

using namespace ds4;
using namespace ds4::test;
using testing::HasSubstr;

namespace {

constexpr uint32_t kContext = 64, kRollback = 3;

TEST(LiveRows, OfAStateThatHoldsTheContextAreAll) {
  const StateDesc rows{"rows", 16, 4, "f32", 1, 4};
  EXPECT_EQ(liveRows(rows, 0, kContext, kRollback), (LiveRows{0, 0}));
  EXPECT_EQ(liveRows(rows, 3, kContext, kRollback), (LiveRows{0, 0}));
  EXPECT_EQ(liveRows(rows, 4, kContext, kRollback), (LiveRows{0, 1}));
  EXPECT_EQ(liveRows(rows, 64, kContext, kRollback), (LiveRows{0, 16}));
  // A context that is no multiple of the window.
  EXPECT_EQ(liveRows(rows, 66, 67, kRollback), (LiveRows{0, 16}));
}

TEST(LiveRows, OfARingAreThoseThatNoRollbackCostsUs) {
  const StateDesc ring{"ring", 8, 4, "f32", 1};
  EXPECT_EQ(liveRows(ring, 5, kContext, kRollback), (LiveRows{0, 5}));
  EXPECT_EQ(liveRows(ring, 6, kContext, kRollback), (LiveRows{1, 6}));
  EXPECT_EQ(liveRows(ring, 64, kContext, kRollback), (LiveRows{59, 64}));
  // Three tokens complete at most one window of 4, five at most two.
  const StateDesc windows{"windows", 8, 4, "f32", 1, 4};
  EXPECT_EQ(liveRows(windows, 63, kContext, 3), (LiveRows{8, 15}));
  EXPECT_EQ(liveRows(windows, 63, kContext, 5), (LiveRows{9, 15}));
  // A ring that a rollback may overwrite as a whole.
  const StateDesc small{"small", 2, 4, "f32", 1};
  EXPECT_EQ(liveRows(small, 9, kContext, kRollback), (LiveRows{9, 9}));
}

/// A ring of 8 rows of 4 bytes and 16 rows of 8 bytes, one for 4 tokens.
class SavedState : public testing::Test {
protected:
  SavedState() {
    manifest.fingerprint = "abc";
    manifest.context = kContext;
    manifest.mostRollback = kRollback;
    manifest.profile = {{"kv", "f16"},
                        {"logits", "all"},
                        {"math", "portable"},
                        {"target", "host"}};
    plan.weights.push_back({"w", WeightFormat::f32, {2, 16}, 128, 0});
    plan.states = {{"ring", 8, 4, "f32", 1}, {"rows", 16, 8, "f32", 2, 4}};
  }

  /// A state whose block is filled with `first`, first + 1, ...
  SequenceState filled(uint8_t first) {
    SequenceState state(manifest, plan);
    memory = *device.allocate(state.bytes(), "states");
    state.place(memory);
    std::vector<uint8_t> bytes(state.bytes());
    std::iota(bytes.begin(), bytes.end(), first);
    EXPECT_TRUE(device.copyIn(memory, bytes.data(), bytes.size()));
    return state;
  }
  std::vector<std::byte> saved(uint32_t position) {
    Result<std::vector<std::byte>> bytes = filled(0).save(device, position);
    EXPECT_TRUE(bytes) << bytes.error().text;
    return *bytes;
  }
  /// What restore() says of `bytes`; nothing may have been copied.
  std::string refusal(std::span<const std::byte> bytes) {
    SequenceState state = filled(0);
    std::vector<uint8_t> before(state.bytes()), after = before;
    EXPECT_TRUE(device.copyOut(before.data(), memory, before.size()));
    Result<uint32_t> position = state.restore(device, bytes, "s.state");
    EXPECT_TRUE(device.copyOut(after.data(), memory, after.size()));
    EXPECT_EQ(before, after);
    return position ? "restored" : position.error().text;
  }

  Manifest manifest;
  Plan plan;
  FakeDevice device{std::make_shared<DeviceLog>(), {}};
  void *memory = nullptr;
};

TEST_F(SavedState, HoldsLiveRowsByNumber) {
  const std::vector<std::byte> bytes = saved(14);
  // Rows 9 ... 13 of the ring are in slots 1 ... 5; windows 0 ... 2 are done.
  std::vector<std::byte> rows;
  for (int i = 4; i < 24; ++i)
    rows.push_back(std::byte(i));
  for (int i = 0; i < 24; ++i)
    rows.push_back(std::byte(i)); // the second state begins at byte 256
  ASSERT_GE(bytes.size(), rows.size());
  EXPECT_TRUE(std::equal(rows.begin(), rows.end(),
                         bytes.end() - static_cast<ptrdiff_t>(rows.size())));
}

TEST_F(SavedState, ComesBackRowForRow) {
  const std::vector<std::byte> bytes = saved(18);
  SequenceState other = filled(100);
  Result<uint32_t> position = other.restore(device, bytes, "s.state");
  ASSERT_TRUE(position) << position.error().text;
  EXPECT_EQ(*position, 18u);
  EXPECT_EQ(*other.save(device, 18), bytes);
  // Rows 13 ... 17 wrap around; the slots 2 ... 4 between them are untouched.
  const auto *ring = static_cast<const uint8_t *>(memory);
  for (uint8_t i = 0; i < 32; ++i)
    EXPECT_EQ(ring[i], i / 4 >= 2 && i / 4 < 5 ? 100 + i : i) << +i;
}

TEST_F(SavedState, OfNoTokensIsEmpty) {
  SequenceState state = filled(0);
  EXPECT_EQ(*state.restore(device, saved(0), "s.state"), 0u);
}

TEST_F(SavedState, GoesOnWhereNoBitDiffers) {
  const std::vector<std::byte> bytes = saved(9);
  manifest.profile["logits"] = "last";
  manifest.profile["target"] = "gfx1151";
  EXPECT_TRUE(filled(0).restore(device, bytes, "s.state"));
}

TEST_F(SavedState, IsBoundToModelAndSettings) {
  const std::vector<std::byte> bytes = saved(9);
  auto expectRefused = [&](std::string_view text) {
    EXPECT_THAT(refusal(bytes), HasSubstr(std::string(text)));
  };
  manifest.profile["kv"] = "fp8";
  expectRefused("s.state was saved by a bundle with kv = f16, this one has "
                "kv = fp8: use a bundle of the same model and profile");
  manifest.profile["kv"] = "f16";
  manifest.fingerprint = "abd";
  expectRefused("with model = abc, this one has model = abd");
  manifest.fingerprint = "abc";
  plan.weights[0].format = WeightFormat::f16;
  expectRefused("with weight formats = ");
  plan.weights[0].format = WeightFormat::f32;
  plan.states[0].rows = 16;
  expectRefused("with state ring = 8 rows of 4 bytes, 1 x f32, one for 1 "
                "tokens, this one has state ring = 16 rows");
  plan.states[0].rows = 8;
  plan.states.push_back({"windows", 16, 8, "f32", 2, 4});
  expectRefused("with nothing there, this one has state windows");
}

TEST_F(SavedState, OrderOfThePlanIsFree) {
  const std::vector<std::byte> bytes = saved(9);
  std::swap(plan.states[0], plan.states[1]);
  SequenceState other = filled(0);
  EXPECT_TRUE(other.restore(device, bytes, "s.state"));
  EXPECT_EQ(*other.save(device, 9), bytes);
}

TEST_F(SavedState, OfFastMathIsBoundToTheTarget) {
  manifest.profile["math"] = "fast";
  const std::vector<std::byte> bytes = saved(9);
  manifest.profile["target"] = "gfx1151";
  EXPECT_THAT(refusal(bytes), HasSubstr("with target = host, this one has "
                                        "target = gfx1151"));
}

TEST_F(SavedState, RefusesDamage) {
  const std::vector<std::byte> good = saved(9);
  auto changed = [&](size_t at) {
    std::vector<std::byte> bytes = good;
    bytes[at] ^= std::byte(1);
    return bytes;
  };
  EXPECT_THAT(refusal({}), HasSubstr("s.state is not a saved sequence (0 "
                                     "bytes"));
  EXPECT_THAT(refusal(std::span(good).first(47)),
              HasSubstr("is not a saved sequence (47 bytes"));
  EXPECT_THAT(refusal(changed(0)), HasSubstr("is not a saved sequence"));
  EXPECT_THAT(refusal(changed(8)),
              HasSubstr("has version 0 of the saved form, this program reads "
                        "version 1"));
  EXPECT_THAT(refusal(std::span(good).first(good.size() - 1)),
              HasSubstr("it is truncated"));
  EXPECT_THAT(refusal(changed(16)), HasSubstr("it is truncated"));
  EXPECT_THAT(refusal(changed(23)), HasSubstr("it is truncated"));
  for (size_t at : {size_t(12), size_t(32), size_t(60), good.size() - 1})
    EXPECT_THAT(refusal(changed(at)),
                HasSubstr("s.state is damaged: its checksum differs; process "
                          "the tokens again"))
        << at;
}

TEST_F(SavedState, IsAFileWholeOrNotAtAll) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) /
      fmt::format("saved_state_{}", getpid());
  std::filesystem::create_directories(folder);
  const std::vector<std::byte> bytes = saved(9);
  for (int again = 0; again < 2; ++again) {
    Status written = writeSavedState(folder / "a.state", bytes);
    ASSERT_TRUE(written) << written.error().text;
    EXPECT_EQ(*readSavedState(folder / "a.state"), bytes);
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  EXPECT_THAT(writeSavedState(folder / "none/a.state", bytes).error().text,
              HasSubstr("cannot create"));
  EXPECT_THAT(readSavedState(folder / "b.state").error().text,
              HasSubstr("cannot read"));
  EXPECT_THAT(readSavedState(folder).error().text, HasSubstr("cannot read"));
  std::filesystem::remove_all(folder);
}

} // namespace
