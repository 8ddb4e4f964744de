// Rollback is assigning a smaller position: bursts of wrong tokens that are
// taken back leave every later logit as it was, whatever windows, rings and
// steps they crossed.
#include "runtime/Session.h"
#include "tools/Compilation.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>

using namespace ds4;

static constexpr char kModel[] =
    DS4_SOURCE_DIR "/models/ds4-tiny/ds4-tiny-strix.gguf";

namespace {
/// A folder that goes with the test.
struct ScratchFolder {
  std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "ds4-rollback";
  ScratchFolder() { std::filesystem::create_directories(path); }
  ~ScratchFolder() { std::filesystem::remove_all(path); }
};
} // namespace

/// A session of the demo model whose cached rows are stored as `kv`.
static std::unique_ptr<Session> openSession(const std::string &kv,
                                            const ScratchFolder &scratch) {
  CompileRequest request;
  request.input = kModel;
  request.output = scratch.path / (kv + ".ds4b");
  request.useCache = false;
  request.profile.context = 512;
  request.profile.prefillChunk = 64;
  request.profile.kv = kv;
  request.profile.simulate = kv == "fp8";
  request.profile.logits = "all";
  Status compiled = compile(request);
  EXPECT_TRUE(compiled) << compiled.error().text;
  Result<Bundle> bundle = openBundle(request.output);
  EXPECT_TRUE(bundle) << bundle.error().text;
  Result<Gguf> gguf = Gguf::open(kModel);
  EXPECT_TRUE(gguf) << gguf.error().text;
  SessionOptions options;
  options.threads = 1;
  Result<std::unique_ptr<Session>> session =
      Session::open(std::move(*bundle), *gguf, options);
  EXPECT_TRUE(session) << session.error().text;
  return std::move(*session);
}

/// Logits of every token of `ids`, which continue the sequence.
static std::vector<float> forwardAll(Session &session,
                                     std::span<const int32_t> ids) {
  std::vector<uint32_t> rows(ids.size());
  for (uint32_t i = 0; i < rows.size(); ++i)
    rows[i] = i;
  Result<Logits> logits = session.forward(ids, rows);
  EXPECT_TRUE(logits) << logits.error().text;
  return logits ? logits->values : std::vector<float>();
}

class Rollback : public testing::TestWithParam<std::string> {};

TEST_P(Rollback, WrongBurstsLeaveNoTrace) {
  ScratchFolder scratch;
  std::unique_ptr<Session> session = openSession(GetParam(), scratch);
  // Past the window (32), several wraps of the rings, two windows of 128.
  constexpr uint32_t kTokens = 280;
  std::mt19937 random(7);
  std::vector<int32_t> ids(kTokens);
  for (int32_t &id : ids)
    id = static_cast<int32_t>(random() % session->vocab());

  std::vector<float> straight = forwardAll(*session, ids);
  ASSERT_TRUE(session->rollback(0));

  const uint32_t most = session->mostRollback();
  ASSERT_GE(most, 4u);
  std::vector<float> bursts;
  while (session->position() < kTokens) {
    const uint32_t begin = session->position();
    const uint32_t good =
        std::min<uint32_t>(random() % (most + 1), kTokens - begin);
    const uint32_t bad = random() % (most - good + 1);
    // One step of right and wrong tokens, as a verify step has them.
    std::vector<int32_t> step(ids.begin() + begin, ids.begin() + begin + good);
    for (uint32_t i = 0; i < bad; ++i)
      step.push_back(static_cast<int32_t>(random() % session->vocab()));
    if (step.empty())
      continue;
    std::vector<float> logits = forwardAll(*session, step);
    bursts.insert(bursts.end(), logits.begin(),
                  logits.begin() +
                      static_cast<size_t>(good) * session->vocab());
    Status back = session->rollback(begin + good);
    ASSERT_TRUE(back) << back.error().text;
  }
  ASSERT_EQ(bursts.size(), straight.size());
  for (uint32_t t = 0; t < kTokens; ++t)
    ASSERT_EQ(std::memcmp(&straight[size_t(t) * session->vocab()],
                          &bursts[size_t(t) * session->vocab()],
                          size_t(session->vocab()) * sizeof(float)),
              0)
        << "logits of token " << t;
}

INSTANTIATE_TEST_SUITE_P(Storage, Rollback,
                         testing::Values("f32", "f16", "fp8"),
                         [](const auto &info) { return info.param; });
