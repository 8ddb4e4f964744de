// OpCoverageTest.cpp - an op cannot exist untested: each op of ir/Ds4Ops.td has
// an entry in the kernel table, an oracle ops/<op>_ref.cpp and a kernel test in
// ops/test/ that runs it.
#include "codegen/KernelTable.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

using namespace ds4;
namespace fs = std::filesystem;

namespace {

/// Ops without a kernel of their own: what a phase reads, a view, a name, the
/// frame around ops of a launch.
const char *const kWithoutKernel[] = {
    "ds4.books",      "ds4.launch",    "ds4.observe", "ds4.reshape",
    "ds4.rope_table", "ds4.rotations", "ds4.state",   "ds4.trace",
    "ds4.weight",     "ds4.yield"};

const fs::path kOps = fs::path(DS4_SOURCE_DIR) / "ops";

std::vector<std::string> opsOfDialect() {
  mlir::MLIRContext context;
  context.loadDialect<ir::Ds4Dialect>();
  std::vector<std::string> ops;
  for (mlir::RegisteredOperationName op : context.getRegisteredOperations())
    if (op.getDialectNamespace() == "ds4" &&
        !std::count(std::begin(kWithoutKernel), std::end(kWithoutKernel),
                    op.getStringRef()))
      ops.push_back(op.getStringRef().str());
  return ops;
}

TEST(OpCoverage, EveryOpHasKernelAndOracle) {
  const std::vector<std::string> kernels = codegen::opsWithKernels();
  const std::vector<std::string> ops = opsOfDialect();
  EXPECT_GT(ops.size(), 20u);
  for (const std::string &op : ops) {
    EXPECT_TRUE(std::count(kernels.begin(), kernels.end(), op))
        << op << " has no entry in codegen/*Kernels.cpp";
    EXPECT_TRUE(fs::exists(kOps / (op.substr(4) + "_ref.cpp")))
        << op << " has no oracle ops/" << op.substr(4) << "_ref.cpp";
  }
  // An entry for an op that is not there is dead code.
  for (const std::string &op : kernels)
    EXPECT_TRUE(std::count(ops.begin(), ops.end(), op)) << op;
}

TEST(OpCoverage, EveryOpHasAKernelTest) {
  std::string tests;
  for (const auto &file : fs::directory_iterator(kOps / "test")) {
    if (!file.is_regular_file())
      continue;
    std::ifstream text(file.path());
    std::string content{std::istreambuf_iterator<char>(text), {}};
    // Files that run kernels; this one does not.
    if (content.find("#include \"ops/test/KernelHarness.h\"") !=
        std::string::npos)
      tests += content;
  }
  for (const std::string &op : opsOfDialect())
    EXPECT_TRUE(
        std::regex_search(tests, std::regex("\\bds4\\." + op.substr(4) + " %")))
        << "no test in ops/test/ runs " << op;
}

} // namespace
