// Units and the scan of what they include.
#include "codegen/DeviceTexts.h"
#include "codegen/LaunchSpec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

using namespace ds4;
using namespace ds4::codegen;
using testing::Contains;

static LaunchSpec linearLaunch() {
  LaunchSpec spec;
  spec.name = "linear";
  spec.threads = 64;
  spec.parts.resize(1);
  KernelSpec &body = spec.parts[0].heads.emplace_back().body;
  body.kernel = "linear";
  body.format = WeightFormat::q8_0;
  body.constant("kIn", 256).constantF("kEps", 1e-6f);
  return spec;
}

TEST(EmitUnit, Text) {
  Unit unit = emitUnit(linearLaunch());
  EXPECT_EQ(unit.symbol.size(), std::string("linear_01234567").size());
  EXPECT_EQ(unit.text, "// unit " + unit.symbol +
                           ": linear\n"
                           "#include \"common.h\"\n"
                           "constexpr u32 kThreads = 64;\n"
                           "\n"
                           "namespace body0 { // linear, q8_0\n"
                           "constexpr u32 kRatio = 1;\n"
                           "constexpr u32 kIn = 256;\n"
                           "constexpr float kEps = 0x1.0c6f7ap-20f;\n"
                           "#include \"weights/q8_0.h\"\n"
                           "#include \"linear.hip\"\n"
                           "} // namespace body0\n"
                           "\n"
                           "DS4_KERNEL(kThreads)\n"
                           "void " +
                           unit.symbol +
                           "(const Step *step) {\n"
                           "  const u32 block = block_x();\n"
                           "  const u32 row = block_y();\n"
                           "  body0::run(block, row, step);\n"
                           "}\n"
                           "DS4_ENTRY(" +
                           unit.symbol + ")\n");
}

TEST(EmitUnit, SymbolFollowsFromTheText) {
  Unit unit = emitUnit(linearLaunch());
  EXPECT_EQ(emitUnit(linearLaunch()).symbol, unit.symbol);
  LaunchSpec other = linearLaunch();
  other.parts[0].heads[0].body.ratio = 4;
  EXPECT_NE(emitUnit(other).symbol, unit.symbol);
  other = linearLaunch();
  other.parts[0].heads[0].body.format = WeightFormat::q6_K;
  EXPECT_NE(emitUnit(other).symbol, unit.symbol);
}

TEST(DeviceTexts, IncludesAreFollowed) {
  std::vector<std::string> paths;
  for (const EmbeddedText *file : includedTexts(emitUnit(linearLaunch()).text))
    paths.emplace_back(file->path);
  // numbers.h only through the prelude, dot.h only through the kernel.
  for (const char *path :
       {"prelude.h", "numbers.h", "weights/q8_0.h", "linear.hip", "dot.h"})
    EXPECT_THAT(paths, Contains(path));
  std::ranges::sort(paths);
  EXPECT_EQ(std::ranges::adjacent_find(paths), paths.end());
}

TEST(DeviceTexts, TheOracleIsNoDeviceCode) {
  EXPECT_NE(findDeviceText("prelude.h"), nullptr);
  EXPECT_EQ(findDeviceText("Reference.h"), nullptr);
  EXPECT_EQ(findDeviceText("Interpreter.h"), nullptr);
  EXPECT_EQ(findDeviceText("prelude"), nullptr);
  EXPECT_EQ(findDeviceText("zzz"), nullptr);
}

TEST(KernelTable, EveryEntryHasItsDeviceFile) {
  mlir::MLIRContext context;
  context.loadDialect<ir::Ds4Dialect>();
  std::vector<std::string> ops = opsWithKernels();
  EXPECT_THAT(ops, Contains("ds4.linear"));
  for (const std::string &op : ops) {
    // grouped_linear is a linear with more than one group.
    std::string kernel = op == "ds4.grouped_linear" ? "linear" : op.substr(4);
    const auto name = mlir::RegisteredOperationName::lookup(op, &context);
    ASSERT_TRUE(name) << op;
    // Elementwise ops are printed: a file would be dead code.
    EXPECT_EQ(findDeviceText(kernel + ".hip") == nullptr,
              name->hasTrait<ir::Elementwise>())
        << op;
  }
}
