// What code objects say of a kernel, and how many waves fit.
#include "runtime/KernelResources.h"

#include "runtime/RtcCompiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <elf.h>

using namespace ds4;
using Json = nlohmann::json;

static void append(std::string &out, const auto &value) {
  out.append(reinterpret_cast<const char *>(&value), sizeof value);
}

static Elf64_Shdr section(uint32_t name, uint32_t type, size_t offset,
                          size_t size) {
  Elf64_Shdr entry{};
  entry.sh_name = name;
  entry.sh_type = type;
  entry.sh_offset = offset;
  entry.sh_size = size;
  return entry;
}

/// An ELF file for `machine` of a note and nothing else.
static std::string amdObject(const Json &metadata, uint16_t machine = 224) {
  const std::vector<uint8_t> text = Json::to_msgpack(metadata);
  const char names[] = "\0.note\0.shstrtab";
  std::string note;
  append(note, Elf64_Nhdr{7, static_cast<Elf64_Word>(text.size()), 32});
  note.append("AMDGPU\0", 8);
  note.append(text.begin(), text.end());
  const size_t noteAt = sizeof(Elf64_Ehdr), namesAt = noteAt + note.size(),
               tableAt = namesAt + sizeof names;
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_machine = machine;
  header.e_shoff = tableAt;
  header.e_shnum = 3;
  header.e_shstrndx = 2;
  std::string file;
  append(file, header);
  file += note;
  append(file, names);
  append(file, Elf64_Shdr{});
  append(file, section(1, SHT_NOTE, noteAt, note.size()));
  append(file, section(7, SHT_STRTAB, namesAt, sizeof names));
  return file;
}

static Json kernelMetadata() {
  return {
      {"amdhsa.kernels", Json::array({{{".name", "k"},
                                       {".max_flat_workgroup_size", 256},
                                       {".vgpr_count", 97},
                                       {".sgpr_count", 30},
                                       {".vgpr_spill_count", 2},
                                       {".sgpr_spill_count", 5},
                                       {".group_segment_fixed_size", 40000},
                                       {".private_segment_fixed_size", 16}}})}};
}

TEST(KernelResourcesTest, AmdObjectsHaveThemInANote) {
  const auto read = readKernelResources("k", amdObject(kernelMetadata()));
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read->threads, 256u);
  EXPECT_EQ(read->vectorRegisters, 97u);
  EXPECT_EQ(read->scalarRegisters, 30u);
  EXPECT_EQ(read->spills, 2u);
  EXPECT_EQ(read->scalarSpills, 5u);
  EXPECT_EQ(read->sharedBytes, 40000u);
  EXPECT_EQ(read->scratchBytes, 16u);
}

TEST(KernelResourcesTest, OtherFilesAreRefused) {
  const std::string good = amdObject(kernelMetadata());
  for (size_t size = 0; size < good.size(); ++size)
    (void)readKernelResources("k", good.substr(0, size)); // only no crash
  for (const std::string &file :
       {std::string(), std::string("not ELF"),
        amdObject(kernelMetadata(), /*machine=*/62), amdObject(Json::array()),
        amdObject({{"amdhsa.kernels", 1}}),
        amdObject({{"amdhsa.kernels", Json::array({1})}}),
        amdObject({{"amdhsa.kernels", Json::array()}})}) {
    const auto read = readKernelResources("k", file);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().text, "the code of k is no ELF file of one kernel "
                                 "for an AMD or NVIDIA GPU");
  }
}

TEST(KernelResourcesTest, CubinsHaveThemInAttributes) {
  const auto compiler = createNvrtc("sm_90");
  if (!compiler)
    GTEST_SKIP() << compiler.error().text;
  // An index that is not constant keeps an array in scratch.
  const auto code = (*compiler)->compile(
      "k.hip", "extern \"C\" __global__ __launch_bounds__(96) void\n"
               "k(float *x, const int *i) {\n"
               "  __shared__ float s[160];\n"
               "  float a[64];\n"
               "  for (int j = 0; j < 64; ++j) a[i[j]] = x[j];\n"
               "  s[threadIdx.x] = a[i[0]] + a[i[1]];\n"
               "  __syncthreads();\n"
               "  x[threadIdx.x] = s[i[3]];\n"
               "}\n");
  ASSERT_TRUE(code) << code.error().text;
  const auto read = readKernelResources("k", *code);
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read->threads, 96u);
  EXPECT_GE(read->vectorRegisters, 8u);
  EXPECT_LE(read->vectorRegisters, 255u);
  EXPECT_EQ(read->sharedBytes, 640u);
  EXPECT_EQ(read->scratchBytes, 256u);
  EXPECT_FALSE(read->spills);
}

static uint32_t waves(const char *chip, uint32_t threads, uint32_t registers,
                      uint64_t sharedBytes) {
  KernelResources kernel;
  kernel.threads = threads;
  kernel.vectorRegisters = registers;
  kernel.sharedBytes = sharedBytes;
  return residentWaves(kernel, *findChipLimits(chip));
}

TEST(KernelResourcesTest, RegistersLimitWaves) {
  EXPECT_EQ(waves("gfx1151", 32, 96, 0), 64u);
  EXPECT_EQ(waves("gfx1151", 32, 97, 0), 48u);
  EXPECT_EQ(waves("gfx1151", 32, 192, 0), 32u);
  EXPECT_EQ(waves("gfx1151", 32, 240, 0), 24u);
  EXPECT_EQ(waves("gfx1151", 32, 256, 0), 20u);
  EXPECT_EQ(waves("gfx1151", 256, 256, 0), 16u); // whole blocks of eight
  EXPECT_EQ(waves("sm_90a", 256, 32, 0), 64u);
  EXPECT_EQ(waves("sm_90", 256, 64, 0), 32u);
  EXPECT_EQ(waves("sm_90", 256, 255, 0), 8u);
}

TEST(KernelResourcesTest, SharedMemoryAndBlocksLimitWaves) {
  EXPECT_EQ(waves("gfx1151", 64, 8, 34764), 6u);
  EXPECT_EQ(waves("gfx1151", 64, 8, 4096), 64u);
  EXPECT_EQ(waves("sm_90", 256, 32, 48 << 10), 32u);
  EXPECT_EQ(waves("sm_90", 32, 32, 0), 32u);
}

TEST(KernelResourcesTest, OtherChipsHaveNoLimits) {
  EXPECT_EQ(findChipLimits("gfx1100"), nullptr);
  EXPECT_EQ(findChipLimits("sm_80"), nullptr);
}
