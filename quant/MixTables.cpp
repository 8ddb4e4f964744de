// MixTables.cpp - layouts as in docs/formats.md, "Tables".
#include "quant/MixTables.h"

#include <bit>
#include <cstdio>
#include <fmt/format.h>
#include <optional>
#include <span>

namespace ds4::quant {

namespace {
/// What an entry says about a tensor's name.
struct TensorName {
  uint32_t layer;
  bool dense;
  uint32_t surface; ///< 0 gate, 1 up, 2 down; of a dense one its class
};
} // namespace

static std::optional<TensorName> parseName(const std::string &name) {
  static constexpr const char *kExperts[] = {"ffn_gate_exps", "ffn_up_exps",
                                             "ffn_down_exps"};
  static constexpr const char *kDense[] = {"attn_q_a", "attn_q_b", "attn_kv",
                                           "attn_output_a", "attn_output_b"};
  unsigned layer = 0;
  if (std::sscanf(name.c_str(), "blk.%u.", &layer) != 1)
    return std::nullopt;
  const auto indexIn = [&](std::span<const char *const> names) {
    uint32_t i = 0;
    while (i < names.size() &&
           name != fmt::format("blk.{}.{}.weight", layer, names[i]))
      ++i;
    return i;
  };
  if (const uint32_t i = indexIn(kExperts); i < std::size(kExperts))
    return TensorName{layer, false, i};
  if (const uint32_t i = indexIn(kDense); i < std::size(kDense))
    return TensorName{layer, true, i};
  return std::nullopt;
}

constexpr uint32_t kOutputA = 3; ///< class of attn_output_a

static void putU32(std::vector<uint8_t> &bytes, uint64_t value) {
  for (unsigned shift = 0; shift < 32; shift += 8)
    bytes.push_back(static_cast<uint8_t>(value >> shift));
}

Status MixTables::check(const GgufTensor &tensor, WeightFormat format) const {
  const auto name = parseName(tensor.name);
  if (!name || tensor.dims.size() != (name->dense ? 2 : 3) ||
      (!name->dense && format == WeightFormat::q3_1_rocmfp3_mix &&
       name->surface != 2))
    return invalidInput(fmt::format(
        "tensor {} cannot be {}: no decode table has a place for its books",
        ggufQuoted(tensor.name), weightFormatInfo(format).name));
  if (name->dense && name->surface == kOutputA &&
      (outputGroups == 0 || tensor.dims[1] % outputGroups))
    return invalidInput(fmt::format(
        "tensor {} has {} rows, which are no multiple of its {} groups",
        ggufQuoted(tensor.name), tensor.dims[1], outputGroups));
  return Status::ok();
}

MixTables::Table &MixTables::tableOf(const GgufTensor &tensor,
                                     WeightFormat format) {
  if (tensor.dims.size() == 2)
    return dmix;
  return format == WeightFormat::q3_1_rocmfp3_mix ? p4mix : gumix;
}

void MixTables::add(const GgufTensor &tensor, WeightFormat format,
                    Floats books) {
  const TensorName name = *parseName(tensor.name);
  const uint64_t levels = weightFormatInfo(format).bookLevels;
  Table &table = tableOf(tensor, format);
  const auto put = [&table](std::initializer_list<uint64_t> words) {
    for (const uint64_t word : words)
      putU32(table.bytes, word);
  };
  ++table.entries;
  put({name.layer});
  if (&table != &p4mix)
    put({name.surface});
  if (&table == &dmix) {
    put({weightFormatInfo(format).typeId,
         name.surface == kOutputA ? outputGroups : 1, 2, levels});
    table.bytes.insert(table.bytes.end(), {1, 0, 0, 0}); // mode: learned
  } else {
    const uint64_t experts = tensor.dims[2];
    put({experts, tensor.dims[1], tensor.dims[0], 2, levels});
    table.bytes.insert(table.bytes.end(), experts, 1); // mode: learned
    if (&table == &p4mix)
      table.bytes.insert(table.bytes.end(), experts, 0); // rotation: none
  }
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
    bytes.resize(8);
    putU32(bytes, table.entries);
    putU32(bytes, 0);
    bytes.insert(bytes.end(), table.bytes.begin(), table.bytes.end());
    writer.set(key, GgufValue::of(bytes));
  };
  set("deepseek4.p4mix.sidecar", "P4MIXv1", p4mix);
  set("deepseek4.gumix.sidecar", "GUMIXs1", gumix);
  set("deepseek4.dmix.sidecar", "DMIXs1", dmix);
}

} // namespace ds4::quant
