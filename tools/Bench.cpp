// Bench.cpp - times whole steps by the clock, after one that is not counted.
#include "tools/Bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <tuple>

namespace ds4 {

using Clock = std::chrono::steady_clock;

std::string BenchTest::name() const {
  if (kind == Kind::prefill)
    return fmt::format("prefill {}", tokens);
  if (kind == Kind::verify)
    return fmt::format("verify {} at {}", tokens, depth);
  return fmt::format("decode at {}", depth);
}

std::vector<int32_t> Bench::randomIds(uint32_t count) {
  std::vector<int32_t> ids(count);
  for (int32_t &id : ids)
    id = static_cast<int32_t>(random() % session.vocab());
  return ids;
}

Result<double> Bench::step(uint32_t count, bool all) {
  const std::vector<int32_t> ids = randomIds(count);
  std::vector<uint32_t> rows(all ? count : 1, count - 1);
  if (all)
    std::iota(rows.begin(), rows.end(), 0);
  const auto begin = Clock::now();
  DS4_TRY(session.greedy(ids, rows));
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void Bench::leaveOut(BenchTest::Kind kind, uint32_t tokens, uint32_t depth,
                     std::string reason) {
  skipped.push_back(
      {BenchTest{kind, tokens, depth, 0, 0, 0, 0}.name(), std::move(reason)});
}

Status Bench::fillTo(uint32_t depth) {
  if (session.position() > depth)
    DS4_TRY(session.rollback(0));
  if (session.position() < depth)
    DS4_TRY(step(depth - session.position(), false));
  return Status::ok();
}

Status Bench::prefill(uint32_t count) {
  // Long prompts are not repeated.
  constexpr double kLong = 5;
  double best = 0;
  uint32_t runs = 0;
  for (; runs < 2 && (runs == 0 || best < kLong); ++runs) {
    DS4_TRY(session.rollback(0));
    DS4_ASSIGN(const double seconds, step(count, false));
    best = runs ? std::min(best, seconds) : seconds;
  }
  done({BenchTest::Kind::prefill, count, 0, runs, best, 0, 0});
  if (!options.ops)
    return Status::ok();
  DS4_TRY(session.rollback(0));
  return byOp(BenchTest::Kind::prefill, count, 0);
}

Status Bench::verify(uint32_t depth) {
  constexpr uint32_t kMost = 5, kRuns = 8;
  double one = 0;
  for (uint32_t count = 1; count <= kMost; ++count) {
    if (count > session.mostRollback()) {
      leaveOut(BenchTest::Kind::verify, count, depth,
               fmt::format("the bundle verifies at most {} tokens: compile it "
                           "with ds4c --verify-width={}",
                           session.mostRollback(), kMost));
      continue;
    }
    double sum = 0;
    for (uint32_t run = 0; run <= kRuns; ++run) {
      DS4_ASSIGN(const double seconds, step(count, true));
      sum += run ? seconds : 0;
      DS4_TRY(session.rollback(session.position() - count));
    }
    if (count == 1)
      one = sum;
    done({BenchTest::Kind::verify, count, depth, kRuns, sum / kRuns, 0,
          sum / one});
  }
  constexpr uint32_t kByOp = 4;
  const uint32_t count = std::min(kByOp, session.mostRollback());
  return options.ops && count > 1 ? byOp(BenchTest::Kind::verify, count, depth)
                                  : Status::ok();
}

Status Bench::decode(uint32_t depth) {
  DS4_TRY(step(1, true)); // captures the step
  const uint32_t runs =
      std::min(options.tokens, session.context() - session.position());
  double sum = 0;
  for (uint32_t i = 0; i < runs; ++i) {
    DS4_ASSIGN(const double seconds, step(1, true));
    sum += seconds;
  }
  done({BenchTest::Kind::decode, 1, depth, runs, sum / runs,
        session.weightBytesPerToken(), 0});
  return Status::ok();
}

/// Each launch is waited for, which costs some microseconds.
Status Bench::byOp(BenchTest::Kind kind, uint32_t tokens, uint32_t depth) {
  const bool prompt = kind == BenchTest::Kind::prefill;
  const uint32_t runs = prompt ? 1 : 4;
  std::map<std::tuple<std::string, uint32_t, uint32_t>, BenchOp> sums;
  session.hooks.timing = [&](const Function &, const Launch &launch,
                             const Step &, int64_t begin, int64_t end) {
    BenchOp &sum =
        sums.try_emplace(
                {launch.label, launch.grid[0], launch.block},
                BenchOp{launch.label, launch.grid[0], launch.block, 0, 0, 0})
            .first->second;
    ++sum.launches;
    sum.seconds += static_cast<double>(end - begin) * 1e-9;
    sum.weightBytes += launch.weightBytesPerToken;
  };
  Status status;
  for (uint32_t i = 0; i < runs && status; ++i) {
    if (Result<double> seconds = step(tokens, !prompt); !seconds)
      status = seconds.error();
    else if (kind == BenchTest::Kind::verify)
      status = session.rollback(session.position() - tokens);
  }
  session.hooks.timing = nullptr;
  DS4_TRY(std::move(status));
  OpsAt &at = opTimes.emplace_back(OpsAt{kind, tokens, depth, {}});
  for (auto &[key, sum] : sums) {
    sum.launches /= runs;
    sum.seconds /= runs;
    sum.weightBytes /= runs;
    at.ops.push_back(std::move(sum));
  }
  std::ranges::sort(at.ops, std::greater(), &BenchOp::seconds);
  return Status::ok();
}

Status Bench::run() {
  // What the tests of a depth need: a verify step, or steps by op and then two
  // of decoding.
  constexpr uint32_t kRoom = 8;
  const std::string context = fmt::format(
      "the bundle's context is {} tokens: compile it with a larger ds4c "
      "--context",
      session.context());
  for (uint32_t count : options.prefill) {
    if (count <= session.context())
      DS4_TRY(prefill(count));
    else
      leaveOut(BenchTest::Kind::prefill, count, 0, context);
  }
  for (uint32_t depth : options.depths) {
    if (uint64_t{depth} + kRoom > session.context()) {
      leaveOut(BenchTest::Kind::decode, 1, depth, context);
      continue;
    }
    DS4_TRY(fillTo(depth));
    DS4_TRY(verify(depth));
    if (options.ops)
      DS4_TRY(byOp(BenchTest::Kind::decode, 1, depth));
    DS4_TRY(decode(depth));
  }
  return Status::ok();
}

} // namespace ds4
