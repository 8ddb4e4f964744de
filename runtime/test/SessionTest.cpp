// SessionTest.cpp - a session over a hand-written plan and a device whose
// kernels are lambdas: steps, clipped grids, rows, hooks, rollback, refusals.
#include "runtime/Session.h"

#include "runtime/GgufWriter.h"
#include "runtime/test/FakeDevice.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <numeric>
#include <unistd.h>

namespace ds4::test {
namespace {

constexpr uint32_t kVocab = 8;
constexpr uint32_t kContext = 64;

/// What the fake head computes for a token at a position.
float fakeLogit(int32_t token, int32_t position, uint32_t v) {
  return static_cast<float>(token * 1000 + position * 10) +
         static_cast<float>(v) / 16;
}

Arg arena(uint64_t offset) { return {ArgKind::arena, {}, offset}; }

Function phase(std::string name, uint32_t capacity, uint32_t outputs) {
  Function function;
  function.name = std::move(name);
  function.capacity = capacity;
  function.outputs = outputs;
  // Arena: logits, argmax, one f32 a token.
  uint64_t argmaxAt = uint64_t(outputs) * kVocab * 4;
  uint64_t rowsAt = argmaxAt + outputs * 4;
  function.arenaBytes = rowsAt + capacity * 4;
  function.logits = arena(0);
  function.argmax = arena(argmaxAt);
  auto status = [](uint64_t launch) {
    return Arg{ArgKind::status, {}, launch * sizeof(StepStatus)};
  };
  Launch embed{"embed_0", "embed", -1, {3, capacity}, 32, 1, {}, 0};
  embed.args = {{ArgKind::tokens, {}, 0},
                {ArgKind::weight, "w", 0},
                arena(rowsAt),
                {ArgKind::step, {}, 0}};
  Launch compress{"compress_0", "compress", 3,  {1, (capacity + 3) / 4},
                  32,           4,          {}, 16};
  compress.args = {{ArgKind::state, "ring", 0},
                   {ArgKind::table, "rope", 0},
                   {ArgKind::null, {}, 0},
                   {ArgKind::step, {}, 0}};
  Launch route{"route_0", "route", 5, {1, capacity}, 32, 1, {}, 100};
  route.selection = "route";
  route.args = {{ArgKind::tokens, {}, 0}, status(2), {ArgKind::step, {}, 0}};
  Launch head{"head_0", "linear", -1, {2, outputs}, 32, 0, {}, 7};
  head.args = {{ArgKind::tokens, {}, 0},
               arena(0),
               arena(argmaxAt),
               {ArgKind::step, {}, 0}};
  function.launches = {embed, compress, route, head};
  function.traces.push_back({"layer0.attn_in", 0, arena(rowsAt), 1, 1});
  return function;
}

class SessionTest : public ::testing::Test {
protected:
  void SetUp() override {
    path = std::filesystem::temp_directory_path() /
           ("session_test_" + std::to_string(::getpid()) + ".gguf");
    GgufWriter writer;
    std::vector<float> values(32, 0.5f);
    auto bytes = std::as_bytes(std::span(values));
    ASSERT_TRUE(writer.addTensor("w", {16, 2}, WeightFormat::f32,
                                 {bytes.begin(), bytes.end()}));
    ASSERT_TRUE(writer.write(path));
    Result<Gguf> opened = Gguf::open(path);
    ASSERT_TRUE(opened);
    file.emplace(std::move(*opened));

    bundle.path = "test.ds4b";
    bundle.manifest.fingerprint = file->fingerprint();
    bundle.manifest.vocab = kVocab;
    bundle.manifest.mostRollback = 9;
    bundle.manifest.context = kContext;
    bundle.manifest.objects.push_back(
        {"fake", "", "objects/fake/x", "", "", ""});
    bundle.plan.functions = {phase("prefill", 8, 2), phase("decode", 1, 1)};
    bundle.plan.weights.push_back({"w", WeightFormat::f32, {2, 16}, 128, 0});
    bundle.plan.states.push_back({"ring", 16, 4, "f32", 1});
    bundle.plan.tables.push_back({"rope", kContext, 4, 10000});

    works["embed_0"] = [](std::span<void *const> args, uint32_t rows) {
      const auto *tokens = static_cast<const int32_t *>(args[0]);
      // The weight has arrived.
      float scale = static_cast<const float *>(args[1])[31];
      for (uint32_t i = 0; i < rows; ++i)
        static_cast<float *>(args[2])[i] = scale * tokens[i];
    };
    works["compress_0"] = [](std::span<void *const> args, uint32_t) {
      EXPECT_EQ(args[2], nullptr);
      const Step &step = *static_cast<const Step *>(args[3]);
      for (int32_t i = step.start; i < step.start + step.count; ++i)
        static_cast<float *>(args[0])[i % 16] = static_cast<float>(i);
    };
    // A token id of 7 stands for a NaN.
    works["route_0"] = [](std::span<void *const> args, uint32_t rows) {
      for (uint32_t i = 0; i < rows; ++i)
        if (static_cast<const int32_t *>(args[0])[i] == 7)
          *static_cast<StepStatus *>(args[1]) = {1, i};
    };
    works["head_0"] = [](std::span<void *const> args, uint32_t rows) {
      const auto *tokens = static_cast<const int32_t *>(args[0]);
      const Step &step = *static_cast<const Step *>(args[3]);
      for (uint32_t i = 0; i < rows; ++i) {
        int32_t token = step.count - step.outputs + static_cast<int32_t>(i);
        for (uint32_t v = 0; v < kVocab; ++v)
          static_cast<float *>(args[1])[i * kVocab + v] =
              fakeLogit(tokens[token], step.start + token, v);
        static_cast<int32_t *>(args[2])[i] = tokens[token];
      }
    };
  }
  void TearDown() override { std::filesystem::remove(path); }

  Result<std::unique_ptr<Session>> open(SessionOptions options = {},
                                        std::string target = "fake") {
    options.load.chunkBytes = 4096;
    return Session::open(bundle, *file,
                         std::make_unique<FakeDevice>(log, works, target),
                         options);
  }
  std::unique_ptr<Session> opened(SessionOptions options = {}) {
    Result<std::unique_ptr<Session>> session = open(options);
    EXPECT_TRUE(session) << session.error().text;
    return std::move(*session);
  }
  void expectRefused(const std::string &text) {
    Result<std::unique_ptr<Session>> session = open();
    ASSERT_FALSE(session) << text;
    EXPECT_NE(session.error().text.find(text), std::string::npos)
        << session.error().text;
    EXPECT_EQ(log->liveBytes, 0u);
  }
  std::vector<std::string> launchText() const {
    std::vector<std::string> text;
    for (const SeenLaunch &seen : log->launches)
      text.push_back(seen.symbol + " " + std::to_string(seen.gridX) + "x" +
                     std::to_string(seen.gridY) + " at " +
                     std::to_string(seen.step.start) + "+" +
                     std::to_string(seen.step.count));
    return text;
  }

  std::filesystem::path path;
  std::optional<Gguf> file;
  Bundle bundle;
  std::map<std::string, FakeDevice::Work> works;
  std::shared_ptr<DeviceLog> log = std::make_shared<DeviceLog>();
};

std::vector<int32_t> someIds(size_t count) {
  std::vector<int32_t> ids(count);
  for (size_t i = 0; i < count; ++i)
    ids[i] = static_cast<int32_t>(i * 5 % 7);
  return ids;
}

TEST_F(SessionTest, RunsStepsWithRowsClipped) {
  auto session = opened();
  std::vector<int32_t> ids = someIds(12);
  Result<Logits> logits = session->forward(std::span(ids).first(11));
  ASSERT_TRUE(logits) << logits.error().text;
  ASSERT_TRUE(session->forward(std::span(ids).last(1)));
  // No logits, no head; only windows that the step completes.
  EXPECT_EQ(launchText(), (std::vector<std::string>{
                              "embed_0 3x8 at 0+8", "compress_0 1x2 at 0+8",
                              "route_0 1x8 at 0+8", "embed_0 3x3 at 8+3",
                              "route_0 1x3 at 8+3", "head_0 2x1 at 8+3",
                              "embed_0 3x1 at 11+1", "compress_0 1x1 at 11+1",
                              "route_0 1x1 at 11+1", "head_0 2x1 at 11+1"}));
  EXPECT_EQ(session->position(), 12u);
  ASSERT_EQ(logits->rows(), 1u);
  EXPECT_EQ(logits->argmax[0], ids[10]);
  for (uint32_t v = 0; v < kVocab; ++v)
    EXPECT_EQ(logits->row(0)[v], fakeLogit(ids[10], 10, v));
  EXPECT_EQ(session->weightBytesPerToken(), 123u);
}

TEST_F(SessionTest, GivesTheLogitsOfTheRowsAsked) {
  auto session = opened();
  std::vector<int32_t> ids = someIds(30);
  ASSERT_TRUE(session->forward(std::span(ids).first(3)));
  std::vector<uint32_t> rows{0, 1, 2, 9, 11, 12, 25};
  Result<Logits> logits = session->forward(std::span(ids).subspan(3), rows);
  ASSERT_TRUE(logits) << logits.error().text;
  ASSERT_EQ(logits->rows(), rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(logits->argmax[i], ids[3 + rows[i]]);
    for (uint32_t v = 0; v < kVocab; ++v)
      EXPECT_EQ(logits->row(i)[v], fakeLogit(ids[3 + rows[i]], 3 + rows[i], v));
  }
  EXPECT_EQ(session->position(), 30u);
}

TEST_F(SessionTest, PrefillChunkIsAnOption) {
  SessionOptions options;
  options.prefillChunk = 2;
  auto session = opened(options);
  ASSERT_TRUE(session->forward(someIds(4)));
  for (const SeenLaunch &seen : log->launches)
    EXPECT_EQ(seen.step.count, 2);
}

TEST_F(SessionTest, RefusesMoreThanTheContext) {
  auto session = opened();
  ASSERT_TRUE(session->forward(someIds(60)));
  Result<Logits> logits = session->forward(someIds(5));
  ASSERT_FALSE(logits);
  EXPECT_EQ(logits.error().text,
            "context length exceeded: 65 tokens asked, the limit is 64; "
            "shorten the prompt or rebuild the bundle with ds4c "
            "--context=256");
  EXPECT_EQ(session->position(), 60u);
  EXPECT_TRUE(session->forward(someIds(4)));
}

TEST_F(SessionTest, RefusesTokensOutsideTheVocabulary) {
  auto session = opened();
  for (int32_t token : {-1, static_cast<int32_t>(kVocab)}) {
    std::vector<int32_t> ids{1, token};
    Result<Logits> logits = session->forward(ids);
    ASSERT_FALSE(logits);
    EXPECT_NE(logits.error().text.find("at position 1 is not in the "
                                       "vocabulary of 8 tokens"),
              std::string::npos);
  }
  EXPECT_TRUE(log->launches.empty());
}

TEST_F(SessionTest, RollbackIsBoundedByTheRings) {
  bundle.manifest.mostRollback = 4;
  auto session = opened();
  ASSERT_TRUE(session->forward(someIds(20)));
  EXPECT_EQ(session->mostRollback(), 4u);
  EXPECT_FALSE(session->rollback(21));
  EXPECT_FALSE(session->rollback(15));
  ASSERT_TRUE(session->rollback(16));
  ASSERT_TRUE(session->forward(someIds(1)));
  EXPECT_EQ(log->launches.back().step.start, 16);
  // Position 19 has been written before, so 15 stays out of reach.
  Status status = session->rollback(15);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().text.find("at most 4 tokens can be taken back"),
            std::string::npos);
  ASSERT_TRUE(session->rollback(0));
  ASSERT_TRUE(session->forward(someIds(3)));
  EXPECT_TRUE(session->rollback(1));
}

TEST_F(SessionTest, ARestoredSequenceGoesOn) {
  auto session = opened();
  ASSERT_TRUE(session->forward(someIds(20)));
  Result<std::vector<std::byte>> saved = session->save();
  ASSERT_TRUE(saved) << saved.error().text;
  ASSERT_TRUE(session->forward(someIds(9)));
  EXPECT_EQ(*session->save(20), *saved);

  ASSERT_TRUE(session->restore(*saved));
  EXPECT_EQ(session->position(), 20u);
  ASSERT_TRUE(session->forward(someIds(3)));
  EXPECT_EQ(log->launches.back().step.start, 20);
  ASSERT_TRUE(session->rollback(20));
  // What earlier tokens need was not saved.
  Status back = session->rollback(19);
  ASSERT_FALSE(back);
  EXPECT_NE(back.error().text.find("the sequence was restored at position 20"),
            std::string::npos);
  EXPECT_FALSE(session->save(19));
  ASSERT_TRUE(session->rollback(0));
  ASSERT_TRUE(session->forward(someIds(3)));
  EXPECT_TRUE(session->rollback(1));
}

TEST_F(SessionTest, SavesOnlyWhatIsThere) {
  bundle.manifest.mostRollback = 4;
  auto session = opened();
  ASSERT_TRUE(session->forward(someIds(20)));
  EXPECT_TRUE(session->save(16));
  EXPECT_FALSE(session->save(15));
  EXPECT_FALSE(session->save(21));
  // A step that fails after it wrote more than a rollback may undo.
  std::vector<int32_t> ids = someIds(8);
  ids[7] = 7;
  ASSERT_FALSE(session->forward(ids));
  Result<std::vector<std::byte>> lost = session->save();
  ASSERT_FALSE(lost);
  EXPECT_NE(lost.error().text.find("roll back to 0"), std::string::npos);
}

TEST_F(SessionTest, RefusedBytesLeaveTheSequence) {
  auto session = opened();
  ASSERT_TRUE(session->forward(someIds(20)));
  std::vector<std::byte> saved = *session->save(12);
  saved.back() ^= std::byte(1);
  Status status = session->restore(saved, "a.state");
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().text.find("a.state is damaged"), std::string::npos);
  EXPECT_EQ(session->position(), 20u);
  EXPECT_TRUE(session->rollback(12));
}

TEST_F(SessionTest, AForkSharesThePrefix) {
  auto trunk = opened(), branch = opened();
  ASSERT_TRUE(trunk->forward(someIds(20)));
  Status forked = branch->fork(*trunk, 17);
  ASSERT_TRUE(forked) << forked.error().text;
  EXPECT_EQ(branch->position(), 17u);
  EXPECT_EQ(trunk->position(), 20u);
  EXPECT_EQ(*branch->save(), *trunk->save(17));
  EXPECT_FALSE(branch->fork(*trunk, 5));
  EXPECT_EQ(branch->position(), 17u);
  // A session may fork itself: it goes back.
  ASSERT_TRUE(trunk->fork(*trunk, 17));
  EXPECT_EQ(trunk->position(), 17u);
}

TEST_F(SessionTest, NamesOpLayerAndPositionOfANan) {
  auto session = opened();
  std::vector<int32_t> ids = someIds(14);
  ids[11] = 7;
  Result<Logits> logits = session->forward(ids);
  ASSERT_FALSE(logits);
  EXPECT_EQ(logits.error().code, ErrorCode::deviceError);
  EXPECT_NE(logits.error().text.find(
                "route of layer 5 met a NaN at token position 11"),
            std::string::npos)
      << logits.error().text;
  // The first step is done; the second wrote 6 positions, within reach.
  EXPECT_EQ(session->position(), 8u);
  // The report was cleared.
  EXPECT_TRUE(session->forward(someIds(6)));
}

TEST_F(SessionTest, AFailedStepMayCostTheState) {
  auto session = opened();
  std::vector<int32_t> ids = someIds(24);
  ASSERT_TRUE(session->forward(std::span(ids).first(8)));
  ids[15] = 7;
  ASSERT_FALSE(session->forward(std::span(ids).subspan(8)));
  EXPECT_EQ(session->position(), 8u);
  ASSERT_TRUE(session->forward(someIds(1))); // 8 written, 9 allowed

  bundle.manifest.mostRollback = 4;
  session = opened();
  ASSERT_TRUE(session->forward(std::span(ids).first(8)));
  ASSERT_FALSE(session->forward(std::span(ids).subspan(8)));
  Result<Logits> lost = session->forward(someIds(1));
  ASSERT_FALSE(lost);
  EXPECT_NE(lost.error().text.find("roll back to 0"), std::string::npos);
  ASSERT_TRUE(session->rollback(0));
  EXPECT_TRUE(session->forward(someIds(1)));
}

TEST_F(SessionTest, TellsActivationsTimesAndProgress) {
  auto session = opened();
  std::vector<float> traced;
  session->hooks.trace = [&](const TracePoint &point, const Step &step,
                             std::span<const float> rows) {
    EXPECT_EQ(point.name, "layer0.attn_in");
    EXPECT_EQ(rows.size(), static_cast<size_t>(step.count));
    traced.insert(traced.end(), rows.begin(), rows.end());
  };
  std::vector<std::string> timed;
  session->hooks.timing = [&](const Function &function, const Launch &launch,
                              const Step &, int64_t begin, int64_t end) {
    EXPECT_LE(begin, end);
    timed.push_back(function.name + "/" + launch.label);
  };
  std::vector<size_t> progress;
  session->hooks.progress = [&](size_t done, size_t total) {
    EXPECT_EQ(total, 9u);
    progress.push_back(done);
  };
  std::vector<int32_t> ids = someIds(9);
  ASSERT_TRUE(session->forward(ids));
  ASSERT_EQ(traced.size(), 9u);
  for (size_t i = 0; i < 9; ++i)
    EXPECT_EQ(traced[i], 0.5f * static_cast<float>(ids[i]));
  EXPECT_EQ(timed, (std::vector<std::string>{
                       "prefill/embed", "prefill/compress", "prefill/route",
                       "decode/embed", "decode/route", "decode/linear"}));
  EXPECT_EQ(progress, (std::vector<size_t>{8, 9}));
}

TEST_F(SessionTest, StopsBetweenSteps) {
  auto session = opened();
  int asked = 0;
  session->hooks.cancelled = [&] { return ++asked == 3; };
  Result<Logits> logits = session->forward(someIds(30));
  ASSERT_FALSE(logits);
  EXPECT_EQ(logits.error().code, ErrorCode::cancelled);
  EXPECT_EQ(session->position(), 16u);
}

TEST_F(SessionTest, RefusesBeforeAnythingIsAllocated) {
  SessionOptions options;
  options.availableBytes = 1000;
  Result<std::unique_ptr<Session>> session = open(options);
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code, ErrorCode::outOfMemory);
  EXPECT_TRUE(log->allocations.empty());

  session = open({}, "gfx1151");
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().text,
            "the bundle is for fake, this device is gfx1151: rebuild with "
            "ds4c --target=gfx1151");

  bundle.manifest.fingerprint = "another";
  expectRefused("was compiled for another model file");
  bundle.manifest.fingerprint = kShapeFingerprint;
  expectRefused("was compiled from a shape (");
  bundle.manifest.fingerprint = file->fingerprint();
  bundle.plan.weights[0].format = WeightFormat::f16;
  expectRefused("the bundle was compiled for another file");
  EXPECT_TRUE(log->allocations.empty());
}

TEST_F(SessionTest, RefusesAHostBundleForAnotherCpu) {
  bundle.manifest.objects.push_back({"host", "", "o", "", "", "x86-64-v9"});
  Result<std::unique_ptr<Session>> session = open({}, "host");
  ASSERT_FALSE(session);
  EXPECT_NE(session.error().text.find("a CPU of level x86-64-v9"),
            std::string::npos)
      << session.error().text;
}

TEST_F(SessionTest, RefusesInconsistentPlans) {
  Plan good = bundle.plan;
  Function &prefill = bundle.plan.functions[0];
  prefill.launches[0].args[1].name = "absent";
  expectRefused("uses the weight `absent`, which the plan does not list");
  bundle.plan = good;
  prefill.launches[0].args[2].offset = 1 << 20;
  expectRefused("lies at byte 1048576 of a buffer");
  bundle.plan = good;
  prefill.logits.offset = prefill.arenaBytes - 4;
  expectRefused("lies at byte");
  bundle.plan = good;
  prefill.traces[0].afterLaunch = 4;
  expectRefused("trace point layer0.attn_in");
  bundle.plan = good;
  prefill.launches[3].kernel = "nothing";
  expectRefused("no kernel nothing");
  bundle.plan = good;
  bundle.plan.functions.clear();
  expectRefused("neither a decode nor a prefill function");

  bundle.plan = good;
  bundle.plan.functions[0].launches[0].grid[1] = 3;
  Result<std::unique_ptr<Session>> session = open();
  ASSERT_TRUE(session);
  Result<Logits> logits = (*session)->forward(someIds(8));
  ASSERT_FALSE(logits);
  EXPECT_NE(logits.error().text.find("grid of 3 rows"), std::string::npos);
}

TEST_F(SessionTest, RefusesDamagedWeightsAndFreesEverything) {
  GgufWriter writer;
  std::vector<float> values(32, std::numeric_limits<float>::infinity());
  auto bytes = std::as_bytes(std::span(values));
  ASSERT_TRUE(writer.addTensor("w", {16, 2}, WeightFormat::f32,
                               {bytes.begin(), bytes.end()}));
  ASSERT_TRUE(writer.write(path));
  expectRefused("element 0 is not finite");
}

TEST_F(SessionTest, LoadsPrecompiledKernels) {
  bundle.path = std::filesystem::temp_directory_path();
  const std::string name = "session_test_" + std::to_string(::getpid());
  bundle.manifest.objects = {{"other", "embed_0", "none", "", "", ""},
                             {"fake", "embed_0", name, "", "", ""},
                             {"fake", "route_0", name, "", "", ""}};
  std::ofstream(bundle.path / name) << "code";
  opened();
  EXPECT_FALSE(log->objectLoaded);
  EXPECT_EQ(log->codeLoaded,
            (std::vector<std::string>{"embed_0: code", "route_0: code"}));
  std::filesystem::remove(bundle.path / name);
  Result<std::unique_ptr<Session>> session = open();
  ASSERT_FALSE(session);
  EXPECT_NE(session.error().text.find(name + ": the bundle is damaged"),
            std::string::npos)
      << session.error().text;
}

TEST_F(SessionTest, FreesEverything) {
  opened().reset();
  EXPECT_EQ(log->liveBytes, 0u);
  EXPECT_FALSE(log->allocations.empty());
}

} // namespace
} // namespace ds4::test
