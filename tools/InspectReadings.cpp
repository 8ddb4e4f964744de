// InspectReadings.cpp - nothing but the sampled scale bytes is read from the
// file's data.
#include "tools/InspectReadings.h"

#include "runtime/Admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>

namespace ds4 {
namespace {

/// Blocks that are looked at in each tensor.
constexpr uint64_t kSampledBlocks = 4096;
/// As the loader refuses (WeightCheck): in affine files the offset byte is
/// greater in 0.86 of the unequal pairs, in dual files in 0.52.
constexpr double kAffineShare = 0.7;
constexpr uint64_t kAffineSample = 256;

struct TypeUse {
  uint64_t tensors = 0, bytes = 0, elements = 0;
};

std::map<uint32_t, TypeUse> typeUses(const Gguf &gguf) {
  std::map<uint32_t, TypeUse> uses;
  for (const GgufTensor &tensor : gguf.tensors()) {
    TypeUse &use = uses[tensor.typeId];
    ++use.tensors;
    use.bytes += tensor.bytes;
    use.elements += tensor.elements();
  }
  return uses;
}

/// How tensors of type `typeId` are read: all alike.
const WeightFormatInfo &formatOf(const Gguf &gguf, uint32_t typeId) {
  for (const GgufTensor &tensor : gguf.tensors())
    if (tensor.typeId == typeId)
      return weightFormatInfo(tensor.format());
  return weightFormatInfo(*weightFormatFromId(typeId));
}

//===----------------------------------------------------------------------===//
// Scale bytes
//===----------------------------------------------------------------------===//

/// The scale bytes of samples of all tensors of a type.
struct ScaleSample {
  uint64_t blocks = 0;
  uint64_t above = 0;   ///< bytes above 0x7e
  uint64_t invalid = 0; ///< bytes that the format does not have
  /// Blocks whose two bytes differ without bit 7; whose second is greater.
  uint64_t unequal = 0, greater = 0;
  /// Largest share of greater ones in a tensor with enough blocks; negative:
  /// no tensor has enough.
  double mostGreater = -1;

  bool looksAffine() const { return mostGreater > kAffineShare; }
};

/// `info` is how the type is read.
Result<ScaleSample> sampleScales(const Gguf &gguf, uint32_t typeId,
                                 const WeightFormatInfo &info) {
  const bool flagged = info.scaleKind == ScaleKind::ue4m3Book ||
                       info.scaleKind == ScaleKind::ue4m3Sign;
  const uint32_t last = info.scaleOffset + info.scaleCount - 1;
  std::ifstream file(gguf.path(), std::ios::binary);
  ScaleSample sample;
  for (const GgufTensor &tensor : gguf.tensors()) {
    if (tensor.typeId != typeId)
      continue;
    const uint64_t blocks =
        std::min(kSampledBlocks, tensor.bytes / info.blockBytes);
    std::vector<uint8_t> bytes(blocks * info.blockBytes);
    file.seekg(static_cast<std::streamoff>(tensor.fileOffset));
    file.read(reinterpret_cast<char *>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    if (!file)
      return ioError(fmt::format("cannot read tensor `{}` of {}", tensor.name,
                                 gguf.path()));
    uint64_t greater = 0;
    for (uint64_t i = 0; i < blocks; ++i) {
      const uint8_t *block = &bytes[i * info.blockBytes];
      for (uint32_t at = info.scaleOffset; at <= last; ++at) {
        sample.above += block[at] > 0x7e;
        sample.invalid += (flagged ? block[at] & 0x7f : block[at]) > 0x7e;
      }
      const int first = block[info.scaleOffset] & 0x7f,
                second = block[last] & 0x7f;
      sample.unequal += first != second;
      greater += second > first;
    }
    sample.blocks += blocks;
    sample.greater += greater;
    if (blocks >= kAffineSample)
      sample.mostGreater =
          std::max(sample.mostGreater,
                   static_cast<double>(greater) / static_cast<double>(blocks));
  }
  return sample;
}

std::string sampleText(const ScaleSample &it) {
  return fmt::format("  {} blocks sampled, {} scale bytes invalid{}", it.blocks,
                     it.invalid, it.invalid ? ": it is refused" : "");
}

//===----------------------------------------------------------------------===//
// Readings
//===----------------------------------------------------------------------===//

/// In the order of Fp2Reading.
constexpr std::string_view kFp2Meanings[] = {
    "levels -1 0 1 2, a scale a half",
    "code * scale - offset, a pair a block",
    "levels -1 0 1 2, bit 7 of a half's scale negates",
    "levels -4 -1 1 4, a scale a half",
};

/// What the bytes of tensors of type 107 say to their reading.
std::string fp2Verdict(const ScaleSample &it, Fp2Reading chosen) {
  const bool affine = it.looksAffine();
  const bool fits =
      it.mostGreater < 0 || affine == (chosen == Fp2Reading::affine);
  if (fits && !it.invalid)
    return "  nothing speaks against it";
  std::string_view likely = affine     ? "it looks affine"
                            : it.above ? "it is fp2s or damaged"
                                       : "it looks dual or s40";
  return fmt::format("  {}: as {} the loader refuses it", likely,
                     fp2ReadingName(fp2Format(chosen)));
}

Result<std::vector<std::string>> reading107(const Gguf &gguf,
                                            const WeightFormatInfo &info) {
  const uint32_t typeId = weightFormatInfo(WeightFormat::q2_0_rocmfp2).typeId;
  DS4_ASSIGN(const ScaleSample it, sampleScales(gguf, typeId, info));
  const std::string_view name = fp2ReadingName(info.format);
  const Fp2Reading reading = *fp2ReadingFromName(name);
  const double share = it.unequal ? static_cast<double>(it.greater) /
                                        static_cast<double>(it.unequal)
                                  : 0;
  std::vector<std::string> lines{
      fmt::format("{} as {}: {}", typeId, name,
                  kFp2Meanings[static_cast<size_t>(reading)]),
      fmt::format("  {}, since the file does not say; {} blocks sampled:",
                  reading == Fp2Reading::dual ? "the default" : "as --fp2 says",
                  it.blocks),
      fmt::format("  second byte greater in {} of unequal pairs (affine 86, "
                  "else 52),",
                  percentText(share)),
      fmt::format("  {} scale bytes above 0x7e (only fp2s has some)", it.above),
      fp2Verdict(it, reading)};
  if (!it.looksAffine() && !it.above)
    lines.push_back("  bytes cannot tell dual and s40 apart: only its answers "
                    "can");
  return lines;
}

std::vector<std::string> learnedReading(uint32_t typeId,
                                        const WeightFormatInfo &info,
                                        const DecodeTables &tables) {
  uint64_t matrices = 0, learned = 0, rotated = 0;
  for (const auto &[name, table] : tables)
    if (table.format == info.format) {
      matrices += table.experts;
      learned +=
          static_cast<uint64_t>(std::ranges::count(table.adaptive, uint8_t(1)));
      rotated +=
          static_cast<uint64_t>(std::ranges::count(table.rotated, uint8_t(1)));
    }
  std::vector<std::string> lines{
      fmt::format("{} as {}: learned levels, each tensor has its table,",
                  typeId, info.name),
      learned == matrices
          ? fmt::format("  all {} matrices have learned levels", matrices)
          : fmt::format("  {} of {} matrices have learned levels, the others "
                        "fixed ones",
                        learned, matrices)};
  if (rotated)
    lines.push_back(fmt::format("  {} matrices are rotated, which needs "
                                "ds4c --h32=sylvester",
                                rotated));
  return lines;
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

/// In the order of DecodeTableKind.
constexpr std::string_view kTableNames[] = {"p4mix", "gumix", "dmix"};

/// The layer and the rest of a name "blk.LAYER.REST.weight".
std::pair<uint64_t, std::string_view> layerAndRole(std::string_view name) {
  uint64_t layer = 0;
  name.remove_prefix(std::min<size_t>(4, name.size()));
  const auto [end, error] =
      std::from_chars(name.data(), name.data() + name.size(), layer);
  name.remove_prefix(std::min<size_t>(
      static_cast<size_t>(end - name.data()) + 1, name.size()));
  return {layer, name.substr(0, name.rfind('.'))};
}

/// "0-2 5 7-9" of ascending numbers.
std::string rangesText(const std::vector<uint64_t> &numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1)
      ++last;
    text += fmt::format("{}{}", text.empty() ? "" : " ", numbers[i]);
    if (last > i)
      text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

/// `text` in lines of at most `width` characters, cut at spaces; lines but the
/// first begin with `indent`.
std::vector<std::string> wrapped(std::string_view text, size_t width,
                                 std::string_view indent) {
  std::vector<std::string> lines;
  std::string line;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, space);
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      lines.push_back(line);
      line = indent;
    } else if (!line.empty()) {
      line += ' ';
    }
    line += word;
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  lines.push_back(line);
  return lines;
}

/// Which entries of a table are used, a role a paragraph.
struct UsedEntries {
  uint64_t experts = 0, levels = 0;
  std::vector<uint64_t> layers;
};

} // namespace

std::string inspectSection(std::string_view label,
                           const std::vector<std::string> &lines) {
  std::string text;
  for (const std::string &line : lines) {
    text += fmt::format("{:<10} {}\n", label, line);
    label = "";
  }
  return text;
}

std::string percentText(double share) {
  return fmt::format("{:.0f} %", 100 * share);
}

std::string typesText(const Gguf &gguf) {
  std::vector<std::string> lines{fmt::format("{:>4} {:<20} {:>8} {:>11} {:>9}",
                                             "id", "name", "tensors", "bytes",
                                             "bits each")};
  for (const auto &[id, use] : typeUses(gguf))
    lines.push_back(fmt::format("{:>4} {:<20} {:>8} {:>11} {:>9.4g}", id,
                                formatOf(gguf, id).name, use.tensors,
                                formatBytes(use.bytes),
                                8 * static_cast<double>(use.bytes) /
                                    static_cast<double>(use.elements)));
  return inspectSection("types", lines);
}

Result<std::string> readingsText(const Gguf &gguf, const DecodeTables &tables) {
  std::string ggml;
  std::vector<std::string> lines;
  for (const auto &[id, use] : typeUses(gguf)) {
    if (id < kGgufFirstPrivateId) {
      ggml += fmt::format("{}{}", ggml.empty() ? "" : ", ", id);
      continue;
    }
    const WeightFormatInfo &info = formatOf(gguf, id);
    std::vector<std::string> found;
    if (id == weightFormatInfo(WeightFormat::q2_0_rocmfp2).typeId) {
      DS4_ASSIGN(found, reading107(gguf, info));
    } else {
      if (info.bookLevels)
        found = learnedReading(id, info, tables);
      else
        found = {
            fmt::format("{} as ROCmFPX {}: {}-byte blocks fill the tensors,",
                        id, info.name, info.blockBytes)};
      DS4_ASSIGN(const ScaleSample sample, sampleScales(gguf, id, info));
      found.push_back(sampleText(sample));
    }
    lines.insert(lines.end(), found.begin(), found.end());
  }
  if (!ggml.empty())
    lines.insert(lines.begin(),
                 ggml + " as ggml has them: ids below 100 have one meaning");
  return inspectSection("readings", lines);
}

std::string tablesText(const Gguf &gguf,
                       const std::vector<FoundDecodeTable> &found,
                       const DecodeTables &tables) {
  std::vector<std::string> lines;
  for (const FoundDecodeTable &table : found) {
    std::map<std::string, UsedEntries, std::less<>> roles;
    uint64_t used = 0;
    for (const auto &[name, entry] : tables) {
      const GgufTensor *tensor = gguf.findTensor(name);
      if (!tensor || decodeTableKind(*tensor) != table.kind)
        continue;
      const auto [layer, role] = layerAndRole(name);
      UsedEntries &it = roles[std::string(role)];
      it.experts = entry.experts;
      it.levels = weightFormatInfo(entry.format).bookLevels;
      it.layers.push_back(layer);
      ++used;
    }
    lines.push_back(fmt::format(
        "{}: {} entries, {}; {} used, {} of tensors of other types",
        kTableNames[static_cast<size_t>(table.kind)], table.entries(),
        formatBytes(table.bytes.size()), used, table.entries() - used));
    lines.push_back(fmt::format(
        "  {} {}", gguf.find(table.name) ? "key" : "file", table.name));
    for (auto &[role, it] : roles) {
      std::ranges::sort(it.layers);
      const std::string text = fmt::format(
          "{} of {}, {} experts, 2 books of {} levels, layers {}",
          it.layers.size(), role, it.experts, it.levels, rangesText(it.layers));
      for (const std::string &line : wrapped(text, 67, "  "))
        lines.push_back("  " + line);
    }
  }
  if (lines.empty())
    lines.push_back("none: no type here needs one");
  return inspectSection("tables", lines);
}

} // namespace ds4
