// Session.cpp - the steps of a sequence.
#include "runtime/Session.h"

#include "runtime/StepPlan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <chrono>

namespace ds4 {
namespace {

int64_t nowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Position of row `row` of a launch's domain.
int64_t rowPosition(RowRatio ratio, const Step &step, int64_t row) {
  if (ratio == 0)
    return step.start + step.count - step.outputs + row;
  return (step.start / ratio + row) * ratio;
}

} // namespace

uint64_t Session::weightBytesPerToken() const {
  uint64_t bytes = 0;
  const Function *decode = bundle.plan.find("decode");
  for (const Launch &launch :
       decode ? decode->launches : phases.front().launches)
    bytes += launch.weightBytesPerToken;
  return bytes;
}

Result<Logits> Session::forward(std::span<const int32_t> ids) {
  uint32_t last = ids.empty() ? 0 : static_cast<uint32_t>(ids.size() - 1);
  return forward(ids, std::span(&last, ids.empty() ? 0 : 1));
}

Result<Logits> Session::forward(std::span<const int32_t> ids,
                                std::span<const uint32_t> rows) {
  Logits result;
  DS4_TRY(run(ids, rows, /*values=*/true, result));
  return result;
}

Result<std::vector<int32_t>> Session::greedy(std::span<const int32_t> ids,
                                             std::span<const uint32_t> rows) {
  Logits result;
  DS4_TRY(run(ids, rows, /*values=*/false, result));
  return std::move(result.argmax);
}

Status Session::run(std::span<const int32_t> ids,
                    std::span<const uint32_t> rows, bool values,
                    Logits &result) {
  assert(std::ranges::is_sorted(rows, std::less_equal<>()) || rows.size() < 2);
  assert(rows.empty() || rows.back() < ids.size());
  uint64_t end = uint64_t(currentPosition) + ids.size();
  if (end > context())
    return invalidInput(fmt::format(
        "context length exceeded: {} tokens asked, the limit is {}; shorten "
        "the prompt or rebuild the bundle with ds4c --context={}",
        end, context(), (end + 255) / 256 * 256));
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || static_cast<uint32_t>(ids[i]) >= vocab())
      return invalidInput(fmt::format(
          "token {} at position {} is not in the vocabulary of {} tokens",
          ids[i], currentPosition + i, vocab()));
  if (currentPosition != 0 && currentPosition + mostRollback() < highWater)
    return invalidInput(fmt::format(
        "the state after position {} was lost in a step that failed; roll back "
        "to 0 and process the tokens again",
        currentPosition));

  const uint64_t rowBytes = uint64_t(vocab()) * sizeof(float);
  result.vocab = vocab();
  result.values.resize(values ? rows.size() * vocab() : 0);
  result.argmax.resize(rows.size());
  size_t nextRow = 0;
  uint32_t base = currentPosition;
  for (const PlannedStep &planned :
       planSteps(phases, static_cast<uint32_t>(ids.size()), rows,
                 options.prefillChunk)) {
    if (hooks.cancelled && hooks.cancelled())
      return Error{ErrorCode::cancelled, "stopped by request"};
    const Function &function = phases[planned.function];
    BoundFunction &bound = boundPhases[planned.function];
    Step next{static_cast<int32_t>(base + planned.first),
              static_cast<int32_t>(planned.count),
              static_cast<int32_t>(planned.outputs), 0};
    highWater = std::max(highWater, base + planned.first + planned.count);
    const uint32_t end = planned.first + planned.count;
    const uint32_t firstOutput = end - planned.outputs;
    std::vector<ReadBack> results;
    for (; nextRow < rows.size() && rows[nextRow] < end; ++nextRow) {
      const uint64_t row = rows[nextRow] - firstOutput;
      results.push_back({result.argmax.data() + nextRow,
                         static_cast<const int32_t *>(bound.argmax) + row,
                         sizeof(int32_t)});
      if (values)
        results.push_back(
            {result.values.data() + nextRow * vocab(),
             static_cast<const std::byte *>(bound.logits) + row * rowBytes,
             rowBytes});
    }
    DS4_TRY(runStep(function, bound, ids.subspan(planned.first, planned.count),
                    next, std::move(results)));
    currentPosition = base + end;
    if (hooks.progress)
      hooks.progress(end, ids.size());
  }
  return Status::ok();
}

Status Session::runStep(const Function &function, BoundFunction &bound,
                        std::span<const int32_t> ids, const Step &next,
                        std::vector<ReadBack> results) {
  DS4_TRY(device->copyIn(tokens, ids.data(), ids.size_bytes()));
  DS4_TRY(device->copyIn(step, &next, sizeof next));
  // A launch that failed may have left some.
  if (ticketsTaken)
    DS4_TRY(device->copyIn(tickets, clearTickets.data(),
                           clearTickets.size() * sizeof(uint32_t)));
  ticketsTaken = function.tickets != 0;
  const bool watched = hooks.timing || hooks.trace || hooks.observe;
  if (!watched)
    DS4_TRY(capture(function, bound));
  if (bound.graph && !watched)
    DS4_TRY(device->launchGraph(bound.graph));
  else
    DS4_TRY(runLaunches(function, bound, next));
  std::vector<StepStatus> reports(function.launches.size());
  results.push_back(
      {reports.data(), status, reports.size() * sizeof(StepStatus)});
  DS4_TRY(device->readBack(results));
  ticketsTaken = false;
  return checkStatus(function, next, reports);
}

/// A captured step launches every row of the capacity, of which most return at
/// once: worth it where the capacity is small.
Status Session::capture(const Function &function, BoundFunction &bound) {
  constexpr uint32_t kMostTokens = 16;
  if (bound.captured || function.capacity > kMostTokens)
    return Status::ok();
  bound.captured = true;
  if (!device->beginCapture())
    return Status::ok();
  Status status;
  for (size_t i = 0; i < function.launches.size() && status; ++i) {
    const Launch &launch = function.launches[i];
    status =
        device->launch(bound.launches[i].kernel, launch.grid[0], launch.grid[1],
                       launch.block, bound.launches[i].args);
  }
  Result<const Graph *> graph = device->endCapture();
  DS4_TRY(std::move(status));
  DS4_ASSIGN(bound.graph, std::move(graph));
  return Status::ok();
}

Status Session::runLaunches(const Function &function,
                            const BoundFunction &bound, const Step &next) {
  for (uint32_t i = 0; i < function.launches.size(); ++i) {
    const Launch &launch = function.launches[i];
    int64_t rows = rowsInStep(launch.ratio, next);
    rows = (rows + launch.columns - 1) / launch.columns;
    if (rows > launch.grid[1])
      return invalidInput(fmt::format(
          "plan.json: launch {} ({}) of {} has a grid of {} rows, a step of {} "
          "tokens needs {}; recompile the bundle with ds4c",
          i, launch.label, function.name, launch.grid[1], next.count, rows));
    if (rows > 0) {
      int64_t begin = hooks.timing ? nowNs() : 0;
      DS4_TRY(device->launch(bound.launches[i].kernel, launch.grid[0],
                             static_cast<uint32_t>(rows), launch.block,
                             bound.launches[i].args));
      if (hooks.timing) {
        DS4_TRY(device->synchronize());
        hooks.timing(function, launch, next, begin, nowNs());
      }
    }
    if (hooks.trace)
      DS4_TRY(copyTraces(function, bound, i, next));
    if (hooks.observe)
      DS4_TRY(copyObservations(function, bound, i, next));
  }
  return Status::ok();
}

Status Session::copyTraces(const Function &function, const BoundFunction &bound,
                           uint32_t launch, const Step &next) {
  for (size_t i = 0; i < function.traces.size(); ++i) {
    const TracePoint &trace = function.traces[i];
    if (trace.afterLaunch != launch)
      continue;
    std::vector<float> values(rowsInStep(trace.ratio, next) *
                              trace.rowElements);
    DS4_TRY(device->synchronize());
    DS4_TRY(device->copyOut(values.data(), bound.traces[i],
                            values.size() * sizeof(float)));
    hooks.trace(trace, next, values);
  }
  return Status::ok();
}

Status Session::copyObservations(const Function &function,
                                 const BoundFunction &bound, uint32_t launch,
                                 const Step &next) {
  for (size_t i = 0; i < function.observations.size(); ++i) {
    const Observation &it = function.observations[i];
    if (it.afterLaunch != launch)
      continue;
    const auto rows = static_cast<uint64_t>(rowsInStep(it.ratio, next));
    std::vector<float> values(rows * it.rowElements);
    std::vector<int32_t> chosen(rows * it.used);
    DS4_TRY(device->synchronize());
    DS4_TRY(device->copyOut(values.data(), bound.observations[i].source,
                            values.size() * sizeof(float)));
    if (!chosen.empty())
      DS4_TRY(device->copyOut(chosen.data(), bound.observations[i].chosen,
                              chosen.size() * sizeof(int32_t)));
    hooks.observe(it, next, values, chosen);
  }
  return Status::ok();
}

Status Session::checkStatus(const Function &function, const Step &next,
                            std::span<const StepStatus> reports) {
  for (size_t i = 0; i < reports.size(); ++i) {
    if (reports[i].launch == 0)
      continue;
    std::vector<StepStatus> clear(reports.size());
    DS4_TRY(device->copyIn(status, clear.data(),
                           clear.size() * sizeof(StepStatus)));
    const Launch &launch = function.launches[i];
    std::string place =
        launch.layer < 0 ? "" : fmt::format(" of layer {}", launch.layer);
    return Error{ErrorCode::deviceError,
                 fmt::format("{}{} met a NaN at token position {} ({} step); "
                             "the weights or the kernels are wrong, find the "
                             "first bad layer with ds4run --check",
                             launch.selection, place,
                             rowPosition(launch.ratio, next, reports[i].row),
                             function.name)};
  }
  return Status::ok();
}

} // namespace ds4
