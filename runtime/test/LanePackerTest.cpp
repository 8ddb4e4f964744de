// LanePackerTest.cpp - the loader's kernel, run on the host device: the bits of
// LaneRow::pack, and whole loads that use it.
#include "runtime/LanePacker.h"

#include "runtime/GgufWriter.h"
#include "runtime/RandomRows.h"
#include "runtime/WeightLoader.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <unistd.h>

using namespace ds4;

namespace {

using Bytes = std::vector<std::byte>;

/// The host device as a GPU is: it "compiles" kernels, which are in the test's
/// object.
class CompilingDevice : public Device {
public:
  explicit CompilingDevice(bool shares) : shares(shares) {
    Result<std::unique_ptr<Device>> created = createHostDevice(2);
    EXPECT_TRUE(created);
    host = std::move(*created);
    EXPECT_TRUE(host->loadObject(DS4_TEST_OBJECT));
  }

  std::string_view target() const override { return "sm_90"; }
  bool sharesMemory() const override { return shares; }
  Result<void *> allocate(uint64_t bytes, std::string_view what) override {
    ++allocations;
    return host->allocate(bytes, what);
  }
  void free(void *memory) override {
    --allocations;
    host->free(memory);
  }
  Status copyIn(void *device, const void *from, uint64_t bytes) override {
    copied += bytes;
    return host->copyIn(device, from, bytes);
  }
  Status copyOut(void *to, const void *device, uint64_t bytes) override {
    return host->copyOut(to, device, bytes);
  }
  Result<std::unique_ptr<RtcCompiler>> compiler() override {
    class Compiler : public RtcCompiler {
    public:
      const std::string &id() const override { return text; }
      Result<std::string> compile(const std::string &,
                                  const std::string &unit) const override {
        return unit;
      }
      std::string text = "the test's compiler";
    };
    return std::unique_ptr<RtcCompiler>(new Compiler);
  }
  Status loadKernels(std::span<const KernelCode> kernels) override {
    EXPECT_EQ(kernels.size(), 1u);
    EXPECT_NE(kernels[0].code.find("ds4_pack_lanes"), std::string::npos);
    return Status::ok();
  }
  Status loadObject(const std::filesystem::path &) override {
    return Status::ok();
  }
  Result<const Kernel *> kernel(std::string_view symbol,
                                uint32_t sharedBytes) override {
    return host->kernel(symbol, sharedBytes);
  }
  Status launch(const Kernel *kernel, uint32_t gridX, uint32_t gridY,
                uint32_t block, std::span<void *const> args) override {
    ++launches;
    return host->launch(kernel, gridX, gridY, block, args);
  }
  Status synchronize() override { return Status::ok(); }

  int allocations = 0, launches = 0;
  uint64_t copied = 0;

private:
  bool shares;
  std::unique_ptr<Device> host;
};

Bytes randomRows(WeightFormat format, uint64_t elements, uint64_t rows) {
  const RandomRow row{format, elements, false, 8};
  Bytes bytes(rows * row.bytes());
  SplitMix random(elements);
  fillRandomRows(random, row, rows, bytes.data());
  return bytes;
}

/// Rows as the host packs them.
Bytes packedRows(const LaneRow &row, const Bytes &file) {
  Bytes packed(file.size() / row.fileBytes * row.bytes);
  row.pack(file.data(), file.size() / row.fileBytes, packed.data());
  return packed;
}

TEST(LanePacker, KernelHasTheBitsOfTheHost) {
  constexpr uint64_t kRows = 3;
  CompilingDevice device(true);
  std::vector<LaneRow> rows;
  std::vector<std::pair<WeightFormat, uint64_t>> kinds;
  for (const WeightFormatInfo &info : weightFormats())
    // The row lengths of the published model, and small ones.
    for (uint64_t elements : {256, 768, 1024, 2048, 4096, 8192, 16384})
      if (const std::optional<LaneRow> row =
              LaneRow::of(info.format, elements)) {
        rows.push_back(*row);
        kinds.emplace_back(info.format, elements);
      }
  ASSERT_GT(rows.size(), 100u);
  Result<std::unique_ptr<LanePacker>> packer = LanePacker::create(device, rows);
  ASSERT_TRUE(packer) << packer.error().text;
  for (size_t i = 0; i < rows.size(); ++i) {
    Bytes file = randomRows(kinds[i].first, kinds[i].second, kRows);
    const Bytes expected = packedRows(rows[i], file);
    Bytes packed(expected.size(), std::byte{0xaa});
    const Status status = (*packer)->pack(i, kRows, file.data(), packed.data());
    ASSERT_TRUE(status) << status.error().text;
    EXPECT_EQ(packed, expected)
        << weightFormatInfo(kinds[i].first).name << " " << kinds[i].second;
  }
}

TEST(LanePacker, LoadsPackOnTheDevice) {
  using enum WeightFormat;
  const auto path = std::filesystem::temp_directory_path() /
                    ("lane_packer_test_" + std::to_string(getpid()) + ".gguf");
  constexpr uint64_t kElements = 2048, kRows = 100;
  const WeightFormat formats[] = {f32, q4_0_rocmfp4_fast, q6_K, q8_0};
  GgufWriter writer;
  std::vector<WeightDesc> descs;
  std::vector<Bytes> data;
  for (WeightFormat format : formats) {
    data.push_back(randomRows(format, kElements, kRows));
    WeightDesc desc;
    desc.name = std::string(weightFormatInfo(format).name);
    desc.format = format;
    desc.shape = {kRows, kElements};
    desc.bytes = data.back().size();
    // One quantised weight stays as it is.
    if (format != q8_0 && LaneRow::of(format, kElements))
      desc.layout = WeightLayout::lanes;
    descs.push_back(desc);
    ASSERT_TRUE(
        writer.addTensor(desc.name, {kElements, kRows}, format, data.back()));
  }
  ASSERT_TRUE(writer.write(path));
  const Result<Gguf> file = Gguf::open(path);
  ASSERT_TRUE(file) << file.error().text;
  for (bool shares : {false, true}) {
    SCOPED_TRACE(shares);
    CompilingDevice device(shares);
    std::vector<Bytes> memory;
    std::vector<WeightTarget> targets;
    for (const WeightDesc &desc : descs)
      memory.emplace_back(deviceBytes(desc));
    for (size_t i = 0; i < descs.size(); ++i)
      targets.push_back({&descs[i], memory[i].data(), {}});
    LoadOptions options;
    options.chunkBytes = 32768;
    options.threads = 3;
    const Result<LoadStats> stats =
        loadWeights(*file, device, targets, options);
    ASSERT_TRUE(stats) << stats.error().text;
    EXPECT_TRUE(stats->packedByDevice);
    EXPECT_GT(device.launches, 2);
    EXPECT_EQ(device.allocations, 0);
    for (size_t i = 0; i < descs.size(); ++i)
      EXPECT_EQ(memory[i],
                descs[i].layout == WeightLayout::file
                    ? data[i]
                    : packedRows(*LaneRow::of(formats[i], kElements), data[i]))
          << descs[i].name;
    // Where memory is shared, packed weights are not copied first.
    const uint64_t plain = descs[0].bytes + descs[3].bytes;
    if (shares)
      EXPECT_LT(device.copied, plain + 1000);
    else
      EXPECT_GT(device.copied, plain + descs[1].bytes);
  }
  std::filesystem::remove(path);
}

} // namespace
