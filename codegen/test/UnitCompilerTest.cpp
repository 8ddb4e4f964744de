// In-process compilation: objects load and run, units do not disturb each
// other, errors name the unit.
#include "codegen/UnitCompiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <filesystem>
#include <fstream>

using namespace ds4;
using namespace ds4::codegen;
using testing::HasSubstr;

static const Target &host() { return *findTarget("host"); }

/// A kernel without collectives that writes `kValue` times the third power of
/// its input, through a helper that has the same name in every unit.
static Unit cubeUnit(const std::string &symbol, float value) {
  return {symbol, "constexpr float kValue = " + std::to_string(value) +
                      "f;\n"
                      "inline __attribute__((noinline)) "
                      "float cube(float x) { return kValue * x*x*x; }\n"
                      "extern \"C\" void " +
                      symbol +
                      "_entry(void *const *args) {\n"
                      "  *(float *)args[1] = cube(*(const float *)args[0]);\n"
                      "}\n"};
}

static float runEntry(void *library, const char *name, float x) {
  auto entry = reinterpret_cast<void (*)(void *const *)>(dlsym(library, name));
  EXPECT_NE(entry, nullptr) << name;
  float result = -1;
  void *args[] = {&x, &result};
  if (entry)
    entry(args);
  return result;
}

static std::string compileError(const Unit &unit) {
  Result<std::string> object = compileUnits({&unit, 1}, host());
  EXPECT_FALSE(object);
  return object ? "" : object.error().text;
}

TEST(UnitCompiler, ObjectLoadsAndUnitsKeepTheirOwnHelpers) {
  Unit units[] = {cubeUnit("a_1", 2), cubeUnit("b_2", 3)};
  Result<std::string> object = compileUnits(units, host());
  ASSERT_TRUE(object) << object.error().text;
  std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "unit_compiler_test.so";
  std::ofstream(path, std::ios::binary) << *object;
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_EQ(runEntry(library, "a_1_entry", 2), 16);
  EXPECT_EQ(runEntry(library, "b_2_entry", 2), 24);
  dlclose(library);
  std::filesystem::remove(path);
}

TEST(UnitCompiler, SameBytesForAnyNumberOfThreads) {
  std::vector<Unit> units;
  for (int i = 0; i < 5; ++i)
    units.push_back(cubeUnit("cube_" + std::to_string(i), i));
  Result<std::string> one = compileUnits(units, host(), {.threads = 1});
  Result<std::string> three = compileUnits(units, host(), {.threads = 3});
  ASSERT_TRUE(one && three);
  EXPECT_TRUE(*one == *three);
}

TEST(UnitCompiler, KeepsTheObjectsOfUnits) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "unit_compiler_test.cache";
  std::filesystem::remove_all(folder);
  auto kept = [&](std::vector<Unit> units) {
    Result<std::string> object =
        compileUnits(units, host(), {.cache = Cache(folder)});
    Result<std::string> fresh = compileUnits(units, host());
    EXPECT_TRUE(object && fresh && *object == *fresh);
    return std::distance(std::filesystem::directory_iterator(folder / "keys"),
                         {});
  };
  const Unit a = cubeUnit("a", 2), b = cubeUnit("b", 3), c = cubeUnit("b", 4);
  EXPECT_EQ(kept({a, b}), 2);
  EXPECT_EQ(kept({a, b}), 2);
  EXPECT_EQ(kept({a, c}), 3);
  std::filesystem::remove_all(folder);
}

TEST(UnitCompiler, PreludeCompilesWithoutSystemHeaders) {
  Unit unit{"nothing_0", "#define DS4_SYMBOL nothing_0\n"
                         "#include \"prelude.h\"\n"
                         "DS4_KERNEL(32) void DS4_SYMBOL(float *out, "
                         "const Step *step) {\n"
                         "  out[thread_x()] = float(step->count);\n"
                         "}\n"
                         "DS4_ENTRY(DS4_SYMBOL)\n"};
  Result<std::string> object = compileUnits({&unit, 1}, host());
  EXPECT_TRUE(object) << object.error().text;
}

TEST(UnitCompiler, SyntaxErrorNamesUnitAndLine) {
  std::string text = compileError({"bad_7", "int x;\nint y = nonsense;\n"});
  EXPECT_THAT(text, HasSubstr("unit bad_7 does not compile for host:"));
  EXPECT_THAT(text, HasSubstr("bad_7.hip:2:9: error: use of undeclared "
                              "identifier 'nonsense'"));
}

TEST(UnitCompiler, SystemHeadersAreOutOfReach) {
  EXPECT_THAT(compileError({"bad_8", "#include <math.h>\n"}),
              HasSubstr("'math.h' file not found"));
}

TEST(UnitCompiler, CallOutsideTheUnitIsRefused) {
  Unit unit = cubeUnit("leak_1", 1);
  unit.text += "extern \"C\" float expf(float);\n"
               "extern \"C\" void other_entry(float *x) { *x = expf(*x); }\n";
  unit.text.replace(unit.text.find("kValue * x"), 10, "expf(x) * x");
  unit.text = "extern \"C\" float expf(float);\n" + unit.text;
  EXPECT_EQ(compileError(unit), "unit leak_1 calls expf, which is not part of "
                                "it");
}

TEST(UnitCompiler, UnitWithoutEntryIsRefused) {
  EXPECT_EQ(compileError({"empty_1", "int x;\n"}),
            "unit empty_1 does not define empty_1_entry: its text lacks "
            "DS4_ENTRY(DS4_SYMBOL)");
}

TEST(UnitCompiler, FusedMultiplyAddIsNotInvented) {
  // a * b + c with a * b = 1 + 2^-23 + 2^-48: contraction would keep 2^-48.
  Unit unit{"fma_1", "extern \"C\" void fma_1_entry(void *const *args) {\n"
                     "  float x = *(const float *)args[0];\n"
                     "  *(float *)args[1] = x * x + -1.0f;\n}\n"};
  Result<std::string> object = compileUnits({&unit, 1}, host());
  ASSERT_TRUE(object) << object.error().text;
  std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "host_compiler_fma.so";
  std::ofstream(path, std::ios::binary) << *object;
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  volatile float x = 1 + 0x1p-12f;
  volatile float square = x * x;
  EXPECT_EQ(runEntry(library, "fma_1_entry", x), square - 1);
  EXPECT_NE(runEntry(library, "fma_1_entry", x), __builtin_fmaf(x, x, -1));
  dlclose(library);
  std::filesystem::remove(path);
}
