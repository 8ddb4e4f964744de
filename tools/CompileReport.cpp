// CompileReport.cpp - the two tables, in columns of fixed width.
#include "tools/CompileReport.h"

#include "runtime/KernelResources.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

namespace ds4 {

namespace {

/// A line of a table. Its columns have the same names in both.
struct Row {
  KernelResources resources;
  std::optional<uint32_t> waves; ///< unknown for a chip without limits
  double seconds = 0;
  size_t kernels = 0;
};

} // namespace

static std::string numberOrDash(std::optional<uint32_t> value) {
  return value ? fmt::format("{}", *value) : "-";
}

static void writeRow(std::string &out, std::string_view name, const Row &row) {
  const KernelResources &r = row.resources;
  fmt::format_to(std::back_inserter(out),
                 "{:<28} {:>7} {:>6} {:>6} {:>7} {:>8} {:>7} {:>7} {:>6}", name,
                 r.threads, r.vectorRegisters, r.scalarRegisters, r.sharedBytes,
                 r.scratchBytes, numberOrDash(r.spills),
                 numberOrDash(r.scalarSpills), numberOrDash(row.waves));
}

static void writeHead(std::string &out, std::string_view name,
                      std::string_view last) {
  fmt::format_to(
      std::back_inserter(out),
      "{:<28} {:>7} {:>6} {:>6} {:>7} {:>8} {:>7} {:>7} {:>6} {:>8}\n", name,
      "threads", "VGPRs", "SGPRs", "shared", "scratch", "spills", "SGPR-sp",
      "waves", last);
}

/// Both numbers' maximum, or what is known.
static std::optional<uint32_t> most(std::optional<uint32_t> a,
                                    std::optional<uint32_t> b) {
  return a && b ? std::optional(std::max(*a, *b)) : a ? a : b;
}

/// Adds a kernel to its kind.
static void merge(Row &kind, const Row &kernel) {
  KernelResources &to = kind.resources;
  const KernelResources &from = kernel.resources;
  to.threads = std::max(to.threads, from.threads);
  to.vectorRegisters = std::max(to.vectorRegisters, from.vectorRegisters);
  to.scalarRegisters = std::max(to.scalarRegisters, from.scalarRegisters);
  to.sharedBytes = std::max(to.sharedBytes, from.sharedBytes);
  to.scratchBytes = std::max(to.scratchBytes, from.scratchBytes);
  to.spills = most(to.spills, from.spills);
  to.scalarSpills = most(to.scalarSpills, from.scalarSpills);
  kind.waves = kind.waves && kernel.waves ? std::min(*kind.waves, *kernel.waves)
                                          : kernel.waves;
  ++kind.kernels;
}

/// Of each kernel, the most that a launch of it adds to its LDS.
static std::map<std::string_view, uint64_t> launchedBytes(const Plan &plan) {
  std::map<std::string_view, uint64_t> bytes;
  for (const Function &function : plan.functions)
    for (const Launch &launch : function.launches) {
      uint64_t &most = bytes[launch.kernel];
      most = std::max<uint64_t>(most, launch.sharedBytes);
    }
  return bytes;
}

Result<std::string> compileReport(std::span<const KernelCode> kernels,
                                  const Plan &plan, std::string_view chip) {
  std::map<std::string_view, uint64_t> launched = launchedBytes(plan);
  const ChipLimits *limits = findChipLimits(chip);
  std::map<std::string_view, Row> kinds;
  std::string out;
  writeHead(out, "kernel", "seconds");
  for (const KernelCode &kernel : kernels) {
    Row row;
    DS4_ASSIGN(row.resources, readKernelResources(kernel.symbol, kernel.code));
    row.resources.sharedBytes += launched[kernel.symbol];
    if (limits)
      row.waves = residentWaves(row.resources, *limits);
    writeRow(out, kernel.symbol, row);
    out += kernel.seconds > 0 ? fmt::format(" {:>8.2f}\n", kernel.seconds)
                              : fmt::format(" {:>8}\n", "cached");
    const std::string_view symbol = kernel.symbol;
    merge(kinds[symbol.substr(0, symbol.rfind('_'))], row);
  }
  out += "\n";
  writeHead(out, "most of a kind", "kernels");
  for (const auto &[name, row] : kinds) {
    writeRow(out, name, row);
    out += fmt::format(" {:>8}\n", row.kernels);
  }
  if (limits)
    out += fmt::format("\nwaves: at once on the {} SIMDs that share LDS, of at "
                       "most {}\n",
                       limits->parts, limits->waves());
  return out;
}

} // namespace ds4
