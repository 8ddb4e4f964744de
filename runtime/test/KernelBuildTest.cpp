// Units to code at load time: what is included, what the cache may give, and
// the real compilers where they are installed.
#include "runtime/KernelBuild.h"

#include "runtime/Device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <atomic>
#include <fstream>
#include <thread>
#include <unistd.h>

using namespace ds4;
using testing::AllOf;
using testing::HasSubstr;

namespace fs = std::filesystem;

namespace {

/// "Compiles" to the text itself; refuses text with the word `bad`.
class EchoCompiler : public RtcCompiler {
public:
  explicit EchoCompiler(std::string id = "echo 1") : text(std::move(id)) {}
  const std::string &id() const override { return text; }
  Result<std::string> compile(const std::string &name,
                              const std::string &unit) const override {
    ++compiled;
    if (unit.find("bad") != unit.npos)
      return Error{ErrorCode::deviceError, name + " is bad"};
    return text + unit;
  }

  mutable std::atomic<int> compiled = 0;

private:
  std::string text;
};

class KernelBuildTest : public testing::Test {
protected:
  void SetUp() override {
    root = fs::path(testing::TempDir()) /
           fmt::format("ds4_kernel_build_test_{}", getpid());
    fs::remove_all(root);
    bundle.path = root;
  }
  void TearDown() override { fs::remove_all(root); }

  void write(const fs::path &file, std::string_view text) {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file, std::ios::binary) << text;
  }
  void addUnit(const std::string &name, std::string_view text) {
    write("kernels/" + name + ".hip", text);
    bundle.manifest.units.push_back({name, "kernels/" + name + ".hip", ""});
  }
  Result<std::vector<KernelCode>> build(const RtcCompiler &compiler) {
    return buildKernels(bundle, compiler, Cache(root / "cache"), options);
  }

  fs::path root;
  Bundle bundle;
  KernelBuildOptions options;
};

} // namespace

TEST_F(KernelBuildTest, IncludedTextsTakeTheirPlaceAndKeepTheirLines) {
  write("a.hip", "one\n  #include \"sub/b.h\"\nthree\n");
  write("sub/b.h", "#include \"c.h\"\n#include \"d.h\"\n");
  write("sub/c.h", "beside\n");
  write("c.h", "not this one\n");
  write("d.h", "from the root\n");
  Result<std::string> text = flattenUnit(root, "a.hip");
  ASSERT_TRUE(text) << text.error().text;
  EXPECT_EQ(*text, "#line 1 \"a.hip\"\none\n"
                   "#line 1 \"sub/b.h\"\n"
                   "#line 1 \"sub/c.h\"\nbeside\n"
                   "#line 2 \"sub/b.h\"\n"
                   "#line 1 \"d.h\"\nfrom the root\n"
                   "#line 3 \"sub/b.h\"\n"
                   "#line 3 \"a.hip\"\nthree\n");
}

TEST_F(KernelBuildTest, MissingAndEndlessInclusionsAreRefused) {
  write("a.hip", "#include \"none.h\"\n");
  Result<std::string> text = flattenUnit(root, "a.hip");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().text,
            fmt::format("cannot read {}: the bundle is damaged, compile it "
                        "again with ds4c",
                        (root / "none.h").string()));
  write("b.hip", "#include \"b.hip\"\n");
  text = flattenUnit(root, "b.hip");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().text,
            "b.hip includes itself: recompile the bundle with ds4c");
}

TEST_F(KernelBuildTest, CodeComesFromTheCacheUntilSomethingChanges) {
  addUnit("k0", "zero\n");
  addUnit("k1", "#include \"h.h\"\n");
  write("kernels/h.h", "one\n");
  std::vector<size_t> seen;
  options.progress = [&](size_t done, size_t total) {
    EXPECT_EQ(total, 2u);
    seen.push_back(done);
  };
  EchoCompiler compiler;
  auto kernels = build(compiler);
  ASSERT_TRUE(kernels) << kernels.error().text;
  ASSERT_EQ(kernels->size(), 2u);
  EXPECT_EQ((*kernels)[0].symbol, "k0");
  EXPECT_THAT((*kernels)[0].code, HasSubstr("zero"));
  EXPECT_THAT((*kernels)[1].code, HasSubstr("one"));
  EXPECT_THAT(seen, testing::ElementsAre(1, 2));
  EXPECT_EQ(compiler.compiled, 2);

  EXPECT_TRUE(build(compiler));
  EXPECT_EQ(compiler.compiled, 2);
  write("kernels/h.h", "two\n"); // a header of one of them
  kernels = build(compiler);
  EXPECT_EQ(compiler.compiled, 3);
  EXPECT_THAT((*kernels)[1].code, HasSubstr("two"));
  EchoCompiler newer("echo 2");
  kernels = build(newer);
  EXPECT_EQ(newer.compiled, 2);
  EXPECT_THAT((*kernels)[0].code, HasSubstr("echo 2"));
}

TEST_F(KernelBuildTest, DamagedObjectsAreBuiltAgain) {
  addUnit("k0", "zero\n");
  EchoCompiler compiler;
  const auto first = build(compiler);
  ASSERT_TRUE(first);
  for (std::string_view damage : {"", "echo", "another program's code"}) {
    for (const auto &blob : fs::directory_iterator(root / "cache/blobs"))
      std::ofstream(blob.path(), std::ios::binary) << damage;
    const int before = compiler.compiled;
    const auto again = build(compiler);
    ASSERT_TRUE(again);
    EXPECT_EQ((*again)[0].code, (*first)[0].code) << damage;
    EXPECT_EQ(compiler.compiled, before + 1) << damage;
  }
}

TEST_F(KernelBuildTest, TwoBuildersOfOneCacheBothWork) {
  for (int i = 0; i < 8; ++i)
    addUnit(fmt::format("k{}", i), fmt::format("text {}\n", i));
  auto work = [&] {
    for (int round = 0; round < 5; ++round) {
      const auto kernels = build(EchoCompiler(fmt::format("echo {}", round)));
      ASSERT_TRUE(kernels) << kernels.error().text;
      for (int i = 0; i < 8; ++i)
        EXPECT_THAT((*kernels)[i].code,
                    AllOf(HasSubstr(fmt::format("echo {}", round)),
                          HasSubstr(fmt::format("text {}", i))));
    }
  };
  std::thread other(work);
  work();
  other.join();
}

TEST_F(KernelBuildTest, TheFirstUnitThatFailsIsNamed) {
  for (int i = 0; i < 8; ++i)
    addUnit(fmt::format("k{}", i), i == 3 || i == 6 ? "bad\n" : "good\n");
  options.threads = 4;
  for (int round = 0; round < 10; ++round) {
    const auto kernels = build(EchoCompiler());
    ASSERT_FALSE(kernels);
    EXPECT_EQ(kernels.error().text, "k3.hip is bad");
  }
}

TEST(RtcCompilerTest, NvrtcCompilesAndShowsTheLineOfAnError) {
  const auto compiler = createNvrtc("sm_90");
  if (!compiler)
    GTEST_SKIP() << compiler.error().text;
  EXPECT_THAT((*compiler)->id(),
              AllOf(HasSubstr("NVRTC"), HasSubstr("sm_90"),
                    HasSubstr("--fmad=false"), HasSubstr("--ftz=false")));
  const auto code = (*compiler)->compile(
      "k.hip", "extern \"C\" __global__ void k(float *x) { *x += 1; }\n");
  ASSERT_TRUE(code) << code.error().text;
  EXPECT_EQ(code->substr(1, 3), "ELF");
  const auto refused = (*compiler)->compile(
      "k.hip", "#line 7 \"part.h\"\nvoid f() { none(); }\n");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text,
              AllOf(HasSubstr("unit k.hip does not compile with NVRTC"),
                    HasSubstr("part.h(7)"), HasSubstr("none")));
}

TEST(RtcCompilerTest, ChipsOfNoFamilyAreRefused) {
  const auto compiler = createRtcCompiler("abacus");
  ASSERT_FALSE(compiler);
  EXPECT_EQ(compiler.error().text, "'abacus' is no chip that kernels are "
                                   "compiled for: sm_90, gfx1151, ...");
}

TEST(DeviceNamesTest, OtherNamesAreRefused) {
  for (const char *name : {"", "cpu", "cuda:", "cuda:x", "cuda:1x", "cuda:-1",
                           "host:0", "hipcuda"}) {
    const auto device = createDevice(name, 1);
    ASSERT_FALSE(device) << name;
    EXPECT_EQ(device.error().text,
              fmt::format("'{}' is no device: host, cuda, hip or one by number "
                          "as in cuda:1",
                          name));
  }
  const auto host = createDevice("host", 1);
  ASSERT_TRUE(host);
  EXPECT_EQ((*host)->target(), "host");
}
