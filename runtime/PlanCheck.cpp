// PlanCheck.cpp - see PlanCheck.h; and what follows from a plan's fields.
#include "runtime/PlanCheck.h"

#include "runtime/ArgText.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace ds4 {

template <typename T>
static std::set<std::string_view> namesOf(const std::vector<T> &items,
                                          std::string T::*name) {
  std::set<std::string_view> names;
  for (const T &item : items)
    names.insert(item.*name);
  return names;
}

namespace {

/// Names and sizes that arguments are checked against.
struct PlanNames {
  explicit PlanNames(const Plan &plan)
      : weights(namesOf(plan.weights, &WeightDesc::name)),
        books(namesOf(plan.books, &BooksDesc::weight)),
        rotations(namesOf(plan.rotations, &RotationsDesc::weight)),
        states(namesOf(plan.states, &StateDesc::name)),
        tables(namesOf(plan.tables, &RopeTable::name)) {}

  bool has(const Arg &arg, const Function &function) const {
    switch (arg.kind) {
    case ArgKind::arena:
      return arg.offset < function.arenaBytes;
    case ArgKind::weight:
      return weights.contains(arg.name);
    case ArgKind::books:
      return books.contains(arg.name);
    case ArgKind::rotations:
      return rotations.contains(arg.name);
    case ArgKind::state:
      return states.contains(arg.name);
    case ArgKind::table:
      return tables.contains(arg.name);
    case ArgKind::status:
      return arg.offset % sizeof(StepStatus) == 0 &&
             arg.offset / sizeof(StepStatus) < function.launches.size();
    case ArgKind::tickets:
      return arg.offset % sizeof(uint32_t) == 0 &&
             arg.offset / sizeof(uint32_t) < function.tickets;
    case ArgKind::tokens:
    case ArgKind::step:
    case ArgKind::null:
      return true;
    }
    return false;
  }

  std::set<std::string_view> weights, books, rotations, states, tables;
};

} // namespace

static Status checkFunction(const Function &function, const PlanNames &names,
                            std::string_view where) {
  auto refuse = [&](std::string_view place, std::string_view text) {
    return invalidInput(fmt::format("{}: function {}, {}: {}", where,
                                    function.name, place, text));
  };
  if (function.capacity == 0 || function.outputs == 0)
    return refuse("capacity", "a step holds no token");
  for (const Arg *arg : {&function.logits, &function.argmax})
    if (!names.has(*arg, function))
      return refuse("results", argToText(*arg) + " does not exist");
  for (size_t i = 0; i < function.launches.size(); ++i) {
    const Launch &launch = function.launches[i];
    const std::string place = fmt::format("launch {} ({})", i, launch.label);
    if (launch.block == 0 || launch.block > 1024 || launch.block % 32)
      return refuse(place, fmt::format("a block of {} threads; it must be a "
                                       "multiple of 32 up to 1024",
                                       launch.block));
    if (launch.grid[0] == 0 || launch.grid[1] == 0 || launch.columns == 0)
      return refuse(place, "an empty grid");
    if (launch.ratio < 0)
      return refuse(place, fmt::format("row ratio {}", launch.ratio));
    for (const Arg &arg : launch.args)
      if (!names.has(arg, function))
        return refuse(place, argToText(arg) + " does not exist");
  }
  for (const TracePoint &trace : function.traces)
    if (trace.afterLaunch >= function.launches.size() || trace.ratio < 0 ||
        !names.has(trace.source, function))
      return refuse("trace " + trace.name, "its launch or buffer does not "
                                           "exist");
  for (const Observation &it : function.observations) {
    const bool isExpert = it.chosen.kind != ArgKind::null;
    const bool fits =
        isExpert ? it.used > 0 && (it.rowElements == it.width ||
                                   it.rowElements / it.used == it.width)
                 : it.used == 0 && it.experts == 1;
    if (it.afterLaunch >= function.launches.size() || it.ratio < 0 ||
        !names.has(it.source, function) || !names.has(it.chosen, function) ||
        !names.weights.contains(it.weight))
      return refuse("observation of " + it.weight,
                    "its launch, buffer or weight does not exist");
    if (!fits || it.width == 0 || it.experts == 0 ||
        it.rowElements % it.width != 0)
      return refuse("observation of " + it.weight,
                    fmt::format("rows of {} values for vectors of {}",
                                it.rowElements, it.width));
  }
  return Status::ok();
}

uint64_t deviceBytes(const WeightDesc &desc) {
  if (desc.layout == WeightLayout::file)
    return desc.bytes;
  const LaneRow row = *LaneRow::of(desc.format, desc.shape.back());
  return desc.bytes / row.fileBytes * row.bytes;
}

static Status checkWeight(const WeightDesc &desc, std::string_view where) {
  if (desc.layout == WeightLayout::file)
    return Status::ok();
  const int64_t columns = desc.shape.empty() ? 0 : desc.shape.back();
  if (columns > 0 && LaneRow::of(desc.format, columns))
    return Status::ok();
  return invalidInput(
      fmt::format("{}: weight {}: rows of {} elements of {} have no layout {}",
                  where, desc.name, columns, weightFormatInfo(desc.format).name,
                  weightLayoutName(desc.layout)));
}

static Status checkState(const StateDesc &state, std::string_view where) {
  // So that sums of sizes cannot wrap.
  constexpr uint64_t kMostBytes = uint64_t(1) << 48;
  if (state.ratio < 1 || state.rows == 0 || state.rowBytes == 0 ||
      state.rows > kMostBytes / state.rowBytes)
    return invalidInput(fmt::format(
        "{}: state {} has {} rows of {} bytes, one for {} tokens", where,
        state.name, state.rows, state.rowBytes, state.ratio));
  return Status::ok();
}

Status checkPlan(const Plan &plan, std::string_view where) {
  for (const WeightDesc &weight : plan.weights)
    DS4_TRY(checkWeight(weight, where));
  for (const StateDesc &state : plan.states)
    DS4_TRY(checkState(state, where));
  const PlanNames names(plan);
  for (const Function &function : plan.functions)
    DS4_TRY(checkFunction(function, names, where));
  return Status::ok();
}

const Function *Plan::find(std::string_view name) const {
  auto it = std::ranges::find(functions, name, &Function::name);
  return it == functions.end() ? nullptr : &*it;
}

} // namespace ds4
