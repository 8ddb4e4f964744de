// Bench.h - times whole steps of a session, in the habit of llama-bench:
// prompts, decoding and verify steps at several depths.
#ifndef DS4_TOOLS_BENCH_H
#define DS4_TOOLS_BENCH_H

#include "runtime/Session.h"

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace ds4 {

struct BenchOptions {
  std::vector<uint32_t> prefill = {512, 2048, 8192};
  std::vector<uint32_t> depths = {0, 2048, 8192, 32768};
  uint32_t tokens = 128; ///< decode steps a depth
  bool ops = false;      ///< time the launches of steps, too
};

/// A line of the table: `tokens` tokens in one step, or in a prompt's steps.
struct BenchTest {
  enum class Kind { prefill, verify, decode };
  Kind kind;
  uint32_t tokens;      ///< of one run
  uint32_t depth;       ///< position of the first token
  uint32_t runs;        ///< that `seconds` is the mean or, of prompts, best of
  double seconds;       ///< of one run
  uint64_t weightBytes; ///< that a decode step reads; 0: of the others
  double decodeSteps;   ///< verify: in units of a step of one token; else 0

  std::string name() const;
};

/// Launches of equal op and grid in the steps of a test.
struct BenchOp {
  std::string label;
  uint32_t grid, block, launches;
  double seconds; ///< of all of them
  uint64_t weightBytes;
};

/// A test that the bundle cannot do.
struct BenchLeftOut {
  std::string test, reason;
};

/// Measures with random tokens: what a step costs does not depend on them but
/// for which experts it reads. Every step selects the next token.
class Bench {
public:
  /// `done` is called after each test.
  Bench(Session &session, const BenchOptions &options,
        std::function<void(const BenchTest &)> done)
      : session(session), options(options), done(std::move(done)) {}

  /// Errors: those of Session::greedy().
  Status run();

  /// Tests that run() left out, and of each depth the ops (BenchOptions::ops).
  const std::vector<BenchLeftOut> &leftOut() const { return skipped; }
  struct OpsAt {
    BenchTest::Kind kind;
    uint32_t tokens, depth;
    std::vector<BenchOp> ops; ///< the longest first
  };
  const std::vector<OpsAt> &ops() const { return opTimes; }

private:
  std::vector<int32_t> randomIds(uint32_t count);
  /// Seconds of processing `count` random tokens, all or the last selected.
  Result<double> step(uint32_t count, bool all);
  Status fillTo(uint32_t depth);
  Status prefill(uint32_t count);
  // From about `depth` on; verify() leaves the position as it is.
  Status verify(uint32_t depth);
  Status decode(uint32_t depth);
  Status byOp(BenchTest::Kind kind, uint32_t tokens, uint32_t depth);
  void leaveOut(BenchTest::Kind kind, uint32_t tokens, uint32_t depth,
                std::string reason);

  Session &session;
  const BenchOptions &options;
  std::function<void(const BenchTest &)> done;
  std::vector<BenchLeftOut> skipped;
  std::vector<OpsAt> opTimes;
  std::minstd_rand random{1};
};

} // namespace ds4

#endif // DS4_TOOLS_BENCH_H
