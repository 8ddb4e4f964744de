// KernelResources.cpp - ELF files of two vendors. What AMD's say is documented
// (LLVM, "User Guide for AMDGPU Backend": code object metadata); of NVIDIA's
// the attributes below are those that cuobjdump --dump-resource-usage shows.
#include "runtime/KernelResources.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <vector>

namespace ds4 {
namespace {

using Json = nlohmann::json;

constexpr uint16_t kMachineAmd = 224, kMachineNvidia = 190;
constexpr uint32_t kNoteAmdMetadata = 32;

/// A section of an ELF file.
struct Section {
  std::string_view name, bytes; ///< no bytes: none in the file
  uint64_t size = 0;
};

/// A value of `T` at `offset`, if it lies in `bytes`.
template <typename T>
std::optional<T> at(std::string_view bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T))
    return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

/// `size` bytes from `offset`; fewer where `bytes` ends.
std::string_view part(std::string_view bytes, uint64_t offset, uint64_t size) {
  return bytes.substr(std::min<uint64_t>(offset, bytes.size()), size);
}

std::vector<Section> sectionsOf(std::string_view file,
                                const Elf64_Ehdr &header) {
  std::vector<Elf64_Shdr> table;
  for (unsigned i = 0; i < header.e_shnum; ++i)
    if (auto entry =
            at<Elf64_Shdr>(file, header.e_shoff + i * sizeof(Elf64_Shdr)))
      table.push_back(*entry);
  std::string_view names;
  if (header.e_shstrndx < table.size())
    names = part(file, table[header.e_shstrndx].sh_offset,
                 table[header.e_shstrndx].sh_size);
  std::vector<Section> sections;
  for (const Elf64_Shdr &entry : table) {
    const std::string_view name = part(names, entry.sh_name, names.size());
    sections.push_back({name.substr(0, name.find('\0')),
                        entry.sh_type == SHT_NOBITS
                            ? std::string_view()
                            : part(file, entry.sh_offset, entry.sh_size),
                        entry.sh_size});
  }
  return sections;
}

/// The text of the note of this type; empty if there is none.
std::string_view noteOf(std::string_view notes, uint32_t type) {
  uint64_t offset = 0;
  while (auto note = at<Elf64_Nhdr>(notes, offset)) {
    const uint64_t name = offset + sizeof(Elf64_Nhdr);
    const uint64_t text = name + (uint64_t(note->n_namesz) + 3) / 4 * 4;
    if (note->n_type == type)
      return part(notes, text, note->n_descsz);
    offset = text + (uint64_t(note->n_descsz) + 3) / 4 * 4;
  }
  return {};
}

} // namespace

/// The number under `key`, 0 if there is none.
static uint32_t number(const Json &map, const char *key) {
  const auto it = map.find(key);
  return it != map.end() && it->is_number_unsigned() ? it->get<uint32_t>() : 0;
}

static std::optional<KernelResources>
readAmd(const std::vector<Section> &sections) {
  for (const Section &section : sections) {
    const std::string_view text = noteOf(section.bytes, kNoteAmdMetadata);
    if (section.name != ".note" || text.empty())
      continue;
    const Json metadata = Json::from_msgpack(text.begin(), text.end(),
                                             /*strict=*/false,
                                             /*allow_exceptions=*/false);
    if (!metadata.is_object())
      return std::nullopt;
    const auto kernels = metadata.find("amdhsa.kernels");
    if (kernels == metadata.end() || !kernels->is_array() ||
        kernels->size() != 1 || !kernels->front().is_object())
      return std::nullopt;
    const Json &kernel = kernels->front();
    KernelResources result;
    result.threads = number(kernel, ".max_flat_workgroup_size");
    result.vectorRegisters = number(kernel, ".vgpr_count");
    result.scalarRegisters = number(kernel, ".sgpr_count");
    result.sharedBytes = number(kernel, ".group_segment_fixed_size");
    result.scratchBytes = number(kernel, ".private_segment_fixed_size");
    result.spills = number(kernel, ".vgpr_spill_count");
    result.scalarSpills = number(kernel, ".sgpr_spill_count");
    return result;
  }
  return std::nullopt;
}

namespace {

/// Attributes of .nv.info: a byte of format, a byte of type, 16 bits of value
/// or of the length of what follows.
enum NvidiaAttribute : uint8_t {
  maxThreads = 0x05, ///< u32 x, y, z
  frameSize = 0x11,  ///< u32 symbol, bytes
  registers = 0x2f,  ///< u32 symbol, count
};
constexpr uint8_t kSizedFormat = 4;

} // namespace

/// Calls found(type, bytes) for each attribute with bytes of its own.
template <typename Found>
static void forEachAttribute(std::string_view info, const Found &found) {
  for (uint64_t offset = 0; offset + 4 <= info.size();) {
    const uint8_t format = info[offset], type = info[offset + 1];
    const uint16_t length = *at<uint16_t>(info, offset + 2);
    offset += 4;
    if (format != kSizedFormat)
      continue;
    found(type, part(info, offset, length));
    offset += length;
  }
}

static std::optional<KernelResources>
readNvidia(const std::vector<Section> &sections) {
  constexpr std::string_view kInfo = ".nv.info", kKernelInfo = ".nv.info.",
                             kShared = ".nv.shared.";
  // Reserved by the driver, not of the kernel: a section that is empty in the
  // file, and the beginning of the kernel's.
  constexpr std::string_view kReserved = ".nv.shared.reserved.";
  constexpr uint64_t kReservedBytes = 1024;
  std::optional<KernelResources> result;
  for (const Section &section : sections)
    if (section.name == kInfo)
      forEachAttribute(section.bytes, [&](uint8_t type, std::string_view data) {
        const auto value = at<uint32_t>(data, 4);
        if (!value)
          return;
        if (!result)
          result.emplace();
        // Functions that are not inlined count too: a kernel has room for all.
        if (type == NvidiaAttribute::registers)
          result->vectorRegisters = std::max(result->vectorRegisters, *value);
        else if (type == NvidiaAttribute::frameSize)
          result->scratchBytes += *value;
      });
  if (!result || result->vectorRegisters == 0)
    return std::nullopt;
  for (const Section &section : sections) {
    if (section.name.starts_with(kShared) &&
        !section.name.starts_with(kReserved))
      result->sharedBytes +=
          section.size - std::min(section.size, kReservedBytes);
    if (!section.name.starts_with(kKernelInfo))
      continue;
    forEachAttribute(section.bytes, [&](uint8_t type, std::string_view data) {
      if (type == maxThreads && data.size() >= 12)
        result->threads = *at<uint32_t>(data, 0) * *at<uint32_t>(data, 4) *
                          *at<uint32_t>(data, 8);
    });
  }
  return result;
}

Result<KernelResources> readKernelResources(std::string_view name,
                                            std::string_view code) {
  const auto header = at<Elf64_Ehdr>(code, 0);
  std::optional<KernelResources> result;
  if (header && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0) {
    const std::vector<Section> sections = sectionsOf(code, *header);
    if (header->e_machine == kMachineAmd)
      result = readAmd(sections);
    else if (header->e_machine == kMachineNvidia)
      result = readNvidia(sections);
  }
  if (!result)
    return invalidInput(fmt::format("the code of {} is no ELF file of one "
                                    "kernel for an AMD or NVIDIA GPU",
                                    name));
  return *result;
}

static constexpr ChipLimits kChips[] = {
    // LLVM's "User Guide for AMDGPU Backend" and the RDNA 3.5 ISA guide,
    // "workgroup processor mode".
    {.chip = "gfx1151",
     .parts = 4,
     .wavesPerPart = 16,
     .registers = 1536,
     .registerGrain = 24,
     .sharedBytes = 128 << 10,
     .sharedGrain = 512,
     .sharedReserved = 0,
     .blocks = 32,
     .waveBlocks = 64},
    // CUDA C++ Programming Guide, "Compute Capabilities". 65,536 registers of
    // one lane are 2,048 of a wave; a warp gets multiples of 256, 8 of a wave.
    {.chip = "sm_90",
     .parts = 4,
     .wavesPerPart = 16,
     .registers = 512,
     .registerGrain = 8,
     .sharedBytes = 228 << 10,
     .sharedGrain = 128,
     .sharedReserved = 1 << 10,
     .blocks = 32,
     .waveBlocks = 32},
};

const ChipLimits *findChipLimits(std::string_view chip) {
  const auto *it = std::ranges::find_if(kChips, [&](const ChipLimits &limits) {
    return chip.starts_with(limits.chip);
  });
  return it == std::end(kChips) ? nullptr : it;
}

static uint64_t roundUp(uint64_t value, uint64_t grain) {
  return (value + grain - 1) / grain * grain;
}

uint32_t residentWaves(const KernelResources &kernel, const ChipLimits &chip) {
  const uint32_t blockWaves = std::max(1u, (kernel.threads + 31) / 32);
  const uint64_t registers = std::max<uint64_t>(
      1, roundUp(kernel.vectorRegisters, chip.registerGrain));
  const uint64_t partWaves =
      std::min<uint64_t>(chip.wavesPerPart, chip.registers / registers);
  uint64_t blocks = partWaves * chip.parts / blockWaves;
  blocks = std::min<uint64_t>(blocks,
                              blockWaves > 1 ? chip.blocks : chip.waveBlocks);
  const uint64_t shared =
      roundUp(kernel.sharedBytes, chip.sharedGrain) + chip.sharedReserved;
  if (shared > 0)
    blocks = std::min(blocks, chip.sharedBytes / shared);
  return static_cast<uint32_t>(blocks * blockWaves);
}

} // namespace ds4
