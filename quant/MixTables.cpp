// MixTables.cpp - layouts as in docs/formats.md, "Tables".
#include "quant/MixTables.h"

#include <bit>
#include <cstdio>
#include <fmt/format.h>
#include <optional>

namespace ds4::quant {

namespace {
struct ExpertName {
  uint32_t layer, surface; ///< surface: 0 gate, 1 up, 2 down
};
} // namespace

static std::optional<ExpertName> parseName(const std::string &name) {
  static constexpr const char *kSurfaces[] = {"gate", "up", "down"};
  unsigned layer = 0;
  if (std::sscanf(name.c_str(), "blk.%u.", &layer) != 1)
    return std::nullopt;
  for (uint32_t surface = 0; surface < 3; ++surface)
    if (name ==
        fmt::format("blk.{}.ffn_{}_exps.weight", layer, kSurfaces[surface]))
      return ExpertName{layer, surface};
  return std::nullopt;
}

static void putU32(std::vector<uint8_t> &bytes, uint64_t value) {
  for (unsigned shift = 0; shift < 32; shift += 8)
    bytes.push_back(static_cast<uint8_t>(value >> shift));
}

Status MixTables::check(const GgufTensor &tensor, WeightFormat format) const {
  const auto name = parseName(tensor.name);
  if (!name || tensor.dims.size() != 3 ||
      (format == WeightFormat::q3_1_rocmfp3_mix && name->surface != 2))
    return invalidInput(fmt::format(
        "tensor {} cannot be {}: no decode table has a place for its books",
        ggufQuoted(tensor.name), weightFormatInfo(format).name));
  return Status::ok();
}

void MixTables::add(const GgufTensor &tensor, WeightFormat format,
                    Floats books) {
  const ExpertName name = *parseName(tensor.name);
  const bool down = format == WeightFormat::q3_1_rocmfp3_mix;
  Table &table = down ? p4mix : gumix;
  ++table.entries;
  putU32(table.bytes, name.layer);
  if (!down)
    putU32(table.bytes, name.surface);
  const uint64_t experts = tensor.dims[2];
  for (const uint64_t value :
       {experts, tensor.dims[1], tensor.dims[0], uint64_t{2},
        uint64_t{weightFormatInfo(format).bookLevels}})
    putU32(table.bytes, value);
  table.bytes.insert(table.bytes.end(), experts, 1); // mode: learned
  if (down)
    table.bytes.insert(table.bytes.end(), experts, 0); // rotation: none
  for (const float level : books) {
    const uint32_t bits = std::bit_cast<uint32_t>(level) >> 16;
    table.bytes.push_back(static_cast<uint8_t>(bits));
    table.bytes.push_back(static_cast<uint8_t>(bits >> 8));
  }
}

void MixTables::write(GgufWriter &writer) const {
  const auto set = [&](const char *key, std::string_view magic,
                       const Table &table) {
    if (!table.entries)
      return;
    std::vector<uint8_t> bytes(magic.begin(), magic.end());
    bytes.push_back(0);
    putU32(bytes, table.entries);
    putU32(bytes, 0);
    bytes.insert(bytes.end(), table.bytes.begin(), table.bytes.end());
    writer.set(key, GgufValue::of(bytes));
  };
  set("deepseek4.p4mix.sidecar", "P4MIXv1", p4mix);
  set("deepseek4.gumix.sidecar", "GUMIXs1", gumix);
}

} // namespace ds4::quant
