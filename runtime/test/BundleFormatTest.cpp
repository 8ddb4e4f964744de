// Bundles: JSON both ways, and each kind of damage as a message.
#include "runtime/BundleFormat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

using namespace ds4;
using testing::HasSubstr;

/// A plan with every struct and every kind of argument in it.
static Plan samplePlan() {
  Plan plan;
  plan.weights = {{"output.weight", WeightFormat::q8_0, {64, 32}, 2176, 0},
                  {"w",
                   WeightFormat::q4_0_rocmfp4_fast,
                   {3, 256},
                   408,
                   0,
                   3,
                   WeightLayout::lanes}};
  plan.books = {{"exps", WeightFormat::q2_1_rocmfp2_mix, 8, true}};
  plan.rotations = {{"exps", 8}};
  plan.states = {{"kv.0", 256, 1024, "fp8", 512}};
  plan.tables = {{"rope", 4096, 64, 160000.0, 16.0, 65536, 32.0, 1.0}};
  Function decode;
  decode.name = "decode";
  decode.capacity = 4;
  decode.outputs = 2;
  decode.arenaBytes = 1024;
  decode.logits = {ArgKind::arena, "", 256};
  decode.argmax = {ArgKind::arena, "", 512};
  Launch launch;
  launch.kernel = "linear_0123abcd";
  launch.label = "linear";
  launch.layer = 3;
  launch.grid = {16, 4};
  launch.block = 256;
  launch.ratio = 4;
  launch.args = {{ArgKind::arena, "", 256}, {ArgKind::weight, "output.weight"},
                 {ArgKind::books, "exps"},  {ArgKind::rotations, "exps"},
                 {ArgKind::state, "kv.0"},  {ArgKind::table, "rope"},
                 {ArgKind::tokens},         {ArgKind::null},
                 {ArgKind::status, "", 0},  {ArgKind::step}};
  launch.weightBytesPerToken = 5'000'000'000;
  decode.launches = {launch};
  decode.traces = {{"layer3.ffn_out", 0, {ArgKind::arena, "", 0}, 256, 1}};
  plan.functions = {decode};
  return plan;
}

static std::string replaced(std::string text, std::string_view from,
                            std::string_view to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

static std::string planError(const std::string &text) {
  Result<Plan> plan = planFromJson(text, "plan.json");
  EXPECT_FALSE(plan);
  return plan ? "" : plan.error().text;
}

TEST(BundleFormat, PlanSurvivesTheRoundTrip) {
  std::string text = planToJson(samplePlan());
  Result<Plan> plan = planFromJson(text, "plan.json");
  ASSERT_TRUE(plan) << plan.error().text;
  EXPECT_EQ(planToJson(*plan), text);
  const Launch &launch = plan->functions[0].launches[0];
  EXPECT_EQ(launch.args, samplePlan().functions[0].launches[0].args);
  EXPECT_EQ(launch.weightBytesPerToken, 5'000'000'000u);
  EXPECT_EQ(plan->weights[0].format, WeightFormat::q8_0);
  EXPECT_EQ(plan->weights[0].layout, WeightLayout::file);
  EXPECT_EQ(deviceBytes(plan->weights[0]), 2176u);
  EXPECT_EQ(plan->weights[1].layout, WeightLayout::lanes);
  EXPECT_EQ(deviceBytes(plan->weights[1]), 3 * 144u); // rows of 136 bytes
  EXPECT_EQ(plan->tables[0].base, 160000.0);
  ASSERT_NE(plan->find("decode"), nullptr);
  EXPECT_EQ(plan->find("prefill"), nullptr);
}

TEST(BundleFormat, ArgumentsReadWell) {
  EXPECT_THAT(
      planToJson(samplePlan()),
      HasSubstr(
          R"("args": ["arena:256", "weight:output.weight", )"
          R"("books:exps", "rotations:exps", "state:kv.0", "table:rope", )"
          R"("tokens", "null", "status:0", "step"])"));
}

TEST(BundleFormat, MalformedPlansNameThePlace) {
  std::string text = planToJson(samplePlan());
  EXPECT_THAT(planError(text.substr(0, text.size() / 2)),
              HasSubstr("plan.json is not JSON: "));
  EXPECT_EQ(planError("[]"), "plan.json: the text is not an object");
  EXPECT_EQ(planError(replaced(text, "\"block\": 256", "\"bolck\": 256")),
            "plan.json: functions[0].launches[0].block is missing");
  EXPECT_EQ(planError(replaced(text, "\"capacity\": 4", "\"capacity\": -4")),
            "plan.json: functions[0].capacity is not an integer from 0 to "
            "4294967295");
  EXPECT_EQ(planError(replaced(text, "\"capacity\": 4", "\"capacity\": 4.5")),
            "plan.json: functions[0].capacity is not an integer from 0 to "
            "4294967295");
  EXPECT_THAT(planError(replaced(text, "\"arena:256\", ", "\"arena:x\", ")),
              HasSubstr("functions[0].launches[0].args[0] is not an argument"));
  EXPECT_EQ(planError(replaced(text, "\"q8_0\"", "\"q9_9\"")),
            "plan.json: weights[0].format is not a weight format that this "
            "version knows");
  EXPECT_EQ(planError(replaced(text, "\"lanes\"", "\"lines\"")),
            "plan.json: weights[1].layout is not a weight layout that this "
            "version knows");
  EXPECT_EQ(planError(replaced(text, "[3, 256]", "[6, 128]")),
            "plan.json: weight w: rows of 128 elements of q4_0_rocmfp4_fast "
            "have no layout lanes");
}

TEST(BundleFormat, PlansThatPointNowhereAreRefused) {
  std::string text = planToJson(samplePlan());
  EXPECT_EQ(planError(replaced(text, "weight:output.weight", "weight:other")),
            "plan.json: function decode, launch 0 (linear): weight:other does "
            "not exist");
  EXPECT_EQ(planError(replaced(text, "\"arena:256\", ", "\"arena:1024\", ")),
            "plan.json: function decode, launch 0 (linear): arena:1024 does "
            "not exist");
  EXPECT_EQ(planError(replaced(text, "status:0", "status:8")),
            "plan.json: function decode, launch 0 (linear): status:8 does not "
            "exist");
  EXPECT_EQ(planError(replaced(text, "\"block\": 256", "\"block\": 48")),
            "plan.json: function decode, launch 0 (linear): a block of 48 "
            "threads; it must be a multiple of 32 up to 1024");
  EXPECT_EQ(
      planError(replaced(text, "\"after_launch\": 0", "\"after_launch\": 1")),
      "plan.json: function decode, trace layer3.ffn_out: its launch or "
      "buffer does not exist");
}

TEST(BundleFormat, StatesThatNoMemoryHoldsAreRefused) {
  auto error = [](uint64_t rows, uint64_t rowBytes, RowRatio ratio) {
    Plan plan = samplePlan();
    plan.states[0].rows = rows;
    plan.states[0].rowBytes = rowBytes;
    plan.states[0].ratio = ratio;
    return planError(planToJson(plan));
  };
  EXPECT_EQ(error(256, 1024, 0),
            "plan.json: state kv.0 has 256 rows of 1024 bytes, one for 0 "
            "tokens");
  EXPECT_THAT(error(256, 1024, -4), HasSubstr("for -4 tokens"));
  EXPECT_THAT(error(0, 1024, 1), HasSubstr("has 0 rows"));
  EXPECT_THAT(error(256, 0, 1), HasSubstr("of 0 bytes"));
  EXPECT_THAT(error(uint64_t(1) << 40, uint64_t(1) << 40, 1),
              HasSubstr("has 1099511627776 rows"));
}

/// The sample with an expert weight's observation, changed by `change`.
static std::string observedPlan(void (*change)(Observation &)) {
  Plan plan = samplePlan();
  Observation it;
  it.weight = "output.weight";
  it.source = {ArgKind::arena, "", 0};
  it.rowElements = 64;
  it.width = 32;
  it.chosen = {ArgKind::arena, "", 512};
  it.used = 2;
  it.experts = 8;
  change(it);
  plan.functions[0].observations = {it};
  return planToJson(plan);
}

TEST(BundleFormat, ObservationsAreThereIfThereAreAny) {
  EXPECT_EQ(planToJson(samplePlan()).find("observations"), std::string::npos);
  const std::string text = observedPlan([](Observation &) {});
  Result<Plan> plan = planFromJson(text, "plan.json");
  ASSERT_TRUE(plan) << plan.error().text;
  EXPECT_EQ(planToJson(*plan), text);
  ASSERT_EQ(plan->functions[0].observations.size(), 1u);
  EXPECT_EQ(plan->functions[0].observations[0].used, 2u);
}

TEST(BundleFormat, ObservationsThatDoNotFitAreRefused) {
  constexpr std::string_view kWhere =
      "plan.json: function decode, observation of ";
  EXPECT_EQ(planError(observedPlan([](Observation &it) { it.weight = "x"; })),
            std::string(kWhere) +
                "x: its launch, buffer or weight does not exist");
  EXPECT_EQ(planError(observedPlan([](Observation &it) { it.width = 48; })),
            std::string(kWhere) +
                "output.weight: rows of 64 values for vectors of 48");
  EXPECT_THAT(planError(observedPlan([](Observation &it) { it.width = 0; })),
              HasSubstr("for vectors of 0"));
  EXPECT_THAT(planError(observedPlan([](Observation &it) { it.used = 0; })),
              HasSubstr("rows of 64 values"));
  EXPECT_THAT(
      planError(observedPlan([](Observation &it) { it.afterLaunch = 1; })),
      HasSubstr("does not exist"));
}

TEST(BundleFormat, RowsInStep) {
  Step step{6, 3, 2, 0}; // positions 6, 7, 8
  EXPECT_EQ(rowsInStep(1, step), 3);
  EXPECT_EQ(rowsInStep(4, step), 1); // position 7 ends window 1
  EXPECT_EQ(rowsInStep(0, step), 2);
}

namespace {

/// A good bundle on disk, to be damaged.
class OpenBundle : public testing::Test {
protected:
  void SetUp() override {
    path = std::filesystem::path(testing::TempDir()) /
           (std::string(
                testing::UnitTest::GetInstance()->current_test_info()->name()) +
            ".ds4b");
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path / "kernels");
    std::filesystem::create_directories(path / "objects/host");
    std::string plan = planToJson(samplePlan());
    manifest.tool = "ds4c test";
    manifest.profile = {{"name", "strix"}};
    manifest.planHash = contentHash(plan);
    manifest.units = {{"k", "kernels/k.hip", contentHash("unit")}};
    manifest.objects = {{"host", "", "objects/host/kernels.so", "key",
                         contentHash("object"), "x86-64-v3"}};
    write("plan.json", plan);
    write("kernels/k.hip", "unit");
    write("objects/host/kernels.so", "object");
    write("manifest.json", manifestToJson(manifest));
  }
  void TearDown() override { std::filesystem::remove_all(path); }

  void write(const std::string &name, const std::string &text) {
    std::ofstream(path / name, std::ios::binary) << text;
  }
  std::string error() {
    Result<Bundle> bundle = openBundle(path);
    EXPECT_FALSE(bundle);
    return bundle ? "" : bundle.error().text;
  }

  std::filesystem::path path;
  Manifest manifest;
};

} // namespace

TEST_F(OpenBundle, ReadsWhatWasWritten) {
  Result<Bundle> bundle = openBundle(path);
  ASSERT_TRUE(bundle) << bundle.error().text;
  EXPECT_EQ(bundle->manifest.profile.at("name"), "strix");
  EXPECT_EQ(bundle->manifest.objects[0].cpu, "x86-64-v3");
  EXPECT_EQ(bundle->plan.functions[0].name, "decode");
}

TEST_F(OpenBundle, MissingDirectory) {
  std::filesystem::remove_all(path);
  EXPECT_THAT(error(), HasSubstr("is not a bundle"));
}

TEST_F(OpenBundle, MissingFile) {
  std::filesystem::remove(path / "kernels/k.hip");
  EXPECT_THAT(error(), HasSubstr("k.hip: the bundle is incomplete, rebuild"));
}

TEST_F(OpenBundle, OtherVersion) {
  write("manifest.json", R"({"version": 7, "new_field": []})");
  EXPECT_THAT(error(), HasSubstr("manifest.json has bundle version 7, this "
                                 "program reads version 6: rebuild"));
}

TEST_F(OpenBundle, MalformedManifest) {
  write("manifest.json", "{\"version\": 1, \"tool\": ");
  EXPECT_THAT(error(), HasSubstr("manifest.json is not JSON"));
  write("manifest.json", "");
  EXPECT_THAT(error(), HasSubstr("manifest.json is not JSON"));
  write("manifest.json", "{}");
  EXPECT_THAT(error(), HasSubstr("manifest.json: version is missing"));
}

TEST_F(OpenBundle, ChangedFiles) {
  for (const char *name :
       {"plan.json", "kernels/k.hip", "objects/host/kernels.so"}) {
    std::string before = name == std::string("plan.json")
                             ? planToJson(samplePlan())
                             : (name[0] == 'k' ? "unit" : "object");
    write(name, before + " ");
    EXPECT_THAT(error(), HasSubstr("was changed after ds4c wrote it")) << name;
    write(name, before);
  }
}

TEST_F(OpenBundle, PathOutsideTheBundle) {
  for (const char *name : {"../secret", "/etc/hostname", "kernels/../../x"}) {
    manifest.units[0].file = name;
    write("manifest.json", manifestToJson(manifest));
    EXPECT_THAT(error(), HasSubstr("which is not inside the bundle")) << name;
  }
}

TEST(ContentHash, IsXxh3In128Bits) {
  // XXH3_128bits of the empty input (xxHash's own sanity table).
  EXPECT_EQ(contentHash(""), "99aa06d3014798d86001c324468d497f");
}
