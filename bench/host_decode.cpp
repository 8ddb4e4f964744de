// host_decode.cpp - tokens per second of decode and prefill on the host target,
// with one and two threads. The bundle is made once by ds4c:
//   ds4c MODEL.gguf --profile=host-demo -o BUNDLE
//   host_decode BUNDLE MODEL.gguf [Google Benchmark options]
// Instruction counts, which do not depend on the load of the machine, come from
// instructions.sh.
#include "runtime/Session.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <numeric>
#include <string>

using namespace ds4;

/// Positions before the tokens that are measured: the attention window is full
/// and compressed rows are visible.
static constexpr uint32_t kWarmTokens = 256;
/// Tokens of a measured prefill.
static constexpr uint32_t kPrefillTokens = 256;

static std::string bundlePath, modelPath;

/// `count` token ids that are legal in any vocabulary of 256 and more.
static std::vector<int32_t> someIds(uint32_t count) {
  std::vector<int32_t> ids(count);
  for (uint32_t i = 0; i < count; ++i)
    ids[i] = static_cast<int32_t>((i * 37 + 11) % 256);
  return ids;
}

static std::unique_ptr<Session> openSession(benchmark::State &state) {
  auto open = [&]() -> Result<std::unique_ptr<Session>> {
    DS4_ASSIGN(Bundle bundle, openBundle(bundlePath));
    DS4_ASSIGN(Gguf file, Gguf::open(modelPath));
    SessionOptions options;
    options.threads = static_cast<unsigned>(state.range(0));
    return Session::open(std::move(bundle), file, options);
  };
  Result<std::unique_ptr<Session>> session = open();
  if (session)
    return std::move(*session);
  state.SkipWithError(session.error().text.c_str());
  return nullptr;
}

static void decode(benchmark::State &state) {
  std::unique_ptr<Session> session = openSession(state);
  if (!session)
    return;
  std::vector<int32_t> warm = someIds(kWarmTokens), token{17};
  if (auto logits = session->forward(warm); !logits)
    state.SkipWithError(logits.error().text.c_str());
  for (auto _ : state) {
    if (session->position() == session->context()) {
      state.PauseTiming();
      (void)session->rollback(0);
      (void)session->forward(warm);
      state.ResumeTiming();
    }
    auto logits = session->forward(token);
    if (!logits) {
      state.SkipWithError(logits.error().text.c_str());
      break;
    }
    benchmark::DoNotOptimize(logits->values.data());
  }
  state.SetItemsProcessed(state.iterations());
}

static void prefill(benchmark::State &state) {
  std::unique_ptr<Session> session = openSession(state);
  if (!session)
    return;
  std::vector<int32_t> ids = someIds(kPrefillTokens);
  for (auto _ : state) {
    (void)session->rollback(0);
    auto logits = session->forward(ids);
    if (!logits) {
      state.SkipWithError(logits.error().text.c_str());
      break;
    }
    benchmark::DoNotOptimize(logits->values.data());
  }
  state.SetItemsProcessed(state.iterations() * kPrefillTokens);
}

BENCHMARK(decode)->Arg(1)->Arg(2)->ArgName("threads")->UseRealTime();
BENCHMARK(prefill)->Arg(1)->Arg(2)->ArgName("threads")->UseRealTime();

int main(int argc, char **argv) {
  if (argc < 3 || argv[1][0] == '-' || argv[2][0] == '-') {
    fmt::print(stderr,
               "usage: host_decode BUNDLE MODEL.gguf [--benchmark_...]\n");
    return 2;
  }
  bundlePath = argv[1];
  modelPath = argv[2];
  argc -= 2;
  std::move(argv + 3, argv + argc + 2, argv + 1);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv))
    return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
