// LanePacker.cpp - see LanePacker.h.
#include "runtime/LanePacker.h"

#include "runtime/KernelBuild.h"

namespace ds4 {

#define DS4_TEXT(...) #__VA_ARGS__
static constexpr const char *kText =
#include "runtime/pack_lanes.inc"
    ;
#undef DS4_TEXT

static constexpr const char *kSymbol = "ds4_pack_lanes";
static constexpr uint32_t kBlock = 256; ///< threads, a word each

std::vector<uint32_t> LanePacker::describe(const LaneRow &row) {
  std::vector<uint32_t> words = {static_cast<uint32_t>(row.fileBytes),
                                 static_cast<uint32_t>(row.bytes),
                                 row.blockBytes, row.segmentBlocks};
  for (const LaneRow::Plane &plane : row.planes)
    words.insert(words.end(),
                 {plane.begin, plane.partOffset, plane.partBytes, plane.unit});
  return words;
}

Result<KernelCode> LanePacker::compile(const RtcCompiler &compiler,
                                       const Cache &cache) {
  return compileCached(kSymbol, kSymbol, kText, compiler, cache);
}

Result<std::unique_ptr<LanePacker>>
LanePacker::create(Device &device, std::span<const LaneRow> rows) {
  DS4_ASSIGN(const std::unique_ptr<RtcCompiler> compiler, device.compiler());
  if (!compiler)
    return std::unique_ptr<LanePacker>();
  DS4_ASSIGN(const KernelCode code, compile(*compiler, Cache::ofUser()));
  DS4_TRY(device.loadKernels(std::span(&code, 1)));
  std::unique_ptr<LanePacker> packer(new LanePacker(device, rows));
  DS4_ASSIGN(packer->kernel, device.kernel(kSymbol, 0));
  std::vector<uint32_t> words;
  for (const LaneRow &row : rows) {
    const std::vector<uint32_t> more = describe(row);
    words.insert(words.end(), more.begin(), more.end());
  }
  const uint64_t bytes = words.size() * sizeof(uint32_t);
  DS4_ASSIGN(packer->descriptions, device.allocate(bytes, "layouts of rows"));
  DS4_TRY(device.copyIn(packer->descriptions, words.data(), bytes));
  DS4_TRY(device.synchronize());
  return packer;
}

LanePacker::~LanePacker() {
  if (descriptions)
    device.free(descriptions);
}

Status LanePacker::launch(Device &device, const Kernel *kernel,
                          const LaneRow &row, void *deviceRow, uint64_t count,
                          void *from, void *to) {
  const auto words = static_cast<uint32_t>(row.bytes / sizeof(uint32_t));
  void *const args[] = {from, to, deviceRow};
  return device.launch(kernel, static_cast<uint32_t>(count),
                       (words + kBlock - 1) / kBlock, kBlock, args);
}

Status LanePacker::pack(size_t row, uint64_t count, void *from, void *to) {
  const uint64_t bytes = describe(rows[row]).size() * sizeof(uint32_t);
  return launch(device, kernel, rows[row],
                static_cast<std::byte *>(descriptions) + row * bytes, count,
                from, to);
}

} // namespace ds4
