// DecodeTables.cpp - parses the p4mix, gumix and dmix tables. Every size is
// checked before memory is allocated; one bad entry refuses the file, since a
// wrong codebook is a wrong model that still talks.
#include "runtime/DecodeTables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>

namespace ds4 {

using enum WeightFormat;

namespace {

constexpr uint64_t kMaxTableBytes = 64u << 20;
constexpr uint64_t kMaxExperts = 65536, kMaxDim = 1048576, kMaxSlices = 4096;

struct KindInfo {
  std::string_view magic; ///< 8 bytes
  std::string_view key;
  std::string_view suffix; ///< of the file beside the GGUF
  unsigned entriesPerLayer;
  unsigned headerWords; ///< of an entry
};

/// In the order of DecodeTableKind.
constexpr std::array<KindInfo, 3> kKinds = {{
    {std::string_view("P4MIXv1\0", 8), "deepseek4.p4mix.sidecar", ".p4mix.bin",
     1, 6},
    {std::string_view("GUMIXs1\0", 8), "deepseek4.gumix.sidecar", ".gumix.bin",
     3, 7},
    {std::string_view("DMIXs1\0\0", 8), "deepseek4.dmix.sidecar", ".dmix.bin",
     5, 6},
}};

/// A table for dense models of other families, which names tensors as those do.
constexpr std::string_view kForeignKey = "geoquant.dmix2.sidecar";

constexpr std::array kSurfaces = {"ffn_gate_exps", "ffn_up_exps",
                                  "ffn_down_exps"};
constexpr std::array kClasses = {"attn_q_a", "attn_q_b", "attn_kv",
                                 "attn_output_a", "attn_output_b"};

const KindInfo &infoOf(DecodeTableKind kind) {
  return kKinds[static_cast<size_t>(kind)];
}

bool isAdaptive(WeightFormat format) {
  return weightFormatInfo(format).bookLevels != 0;
}

/// Levels of types 104 and 107, in the order of their codes.
std::span<const float> fixedLevels(WeightFormat format) {
  static constexpr float kFp3[] = {0, 1, 2, 4, 0, -1, -2, -4};
  static constexpr float kFp2[] = {-1, 0, 1, 2};
  return format == q3_1_rocmfp3_mix ? std::span<const float>(kFp3)
                                    : std::span<const float>(kFp2);
}

/// Reads one table into `tables`.
class TableParser {
public:
  TableParser(const DecodeTableSource &source,
              std::span<const GgufTensor> tensors, uint64_t layers,
              Rotations accepted, DecodeTables &tables)
      : source(source), kind(infoOf(source.kind)), tensors(tensors),
        layers(layers), accepted(accepted), tables(tables) {}

  Status parse();

private:
  /// Fields of an entry; a layout without one leaves the default.
  struct Entry {
    uint64_t layer = 0, surface = 2, experts = 1, out = 0, in = 0;
    uint64_t books = 0, levels = 0;
    WeightFormat format = q3_1_rocmfp3_mix;
    uint64_t slices = 1;
    std::string label; ///< "layer 3 ffn_down_exps"
    const GgufTensor *tensor = nullptr;

    uint64_t bookBytes() const { return experts * books * levels * 2; }
  };

  Error bad(std::string text) const {
    return invalidInput(fmt::format("decode table {}: {}", source.name, text));
  }
  uint64_t left() const { return source.bytes.size() - offset; }
  uint32_t word();
  Status parseEntry(uint64_t index);
  Result<Entry> readEntryHeader(uint64_t index);
  Status checkAgainstTensor(const Entry &entry) const;
  Status readPayload(const Entry &entry, uint64_t rotationBytes);

  const DecodeTableSource &source;
  const KindInfo &kind;
  std::span<const GgufTensor> tensors;
  uint64_t layers;
  Rotations accepted;
  DecodeTables &tables;
  uint64_t offset = 0;
};

uint32_t TableParser::word() {
  uint32_t value = 0;
  for (unsigned i = 0; i < 4; ++i)
    value |= static_cast<uint32_t>(source.bytes[offset + i]) << 8 * i;
  offset += 4;
  return value;
}

Status TableParser::parse() {
  if (source.bytes.size() < 16)
    return bad(fmt::format("ends inside its header of 16 bytes, after {}",
                           source.bytes.size()));
  const std::string_view magic(
      reinterpret_cast<const char *>(source.bytes.data()), 8);
  if (magic != kind.magic)
    return bad(fmt::format("unknown header {}, expected \"{}\"",
                           ggufQuoted(magic), kind.magic.data()));
  offset = 8;
  const uint64_t count = word();
  word(); // reserved, ignored by the reference
  // count has 32 bits; more layers than that must not wrap the product.
  const uint64_t most =
      std::min<uint64_t>(layers, UINT32_MAX) * kind.entriesPerLayer;
  if (count < 1 || count > most)
    return bad(fmt::format("declares {} entries; a model of {} layers has 1 "
                           "to {}",
                           count, layers, most));
  for (uint64_t i = 0; i < count; ++i)
    DS4_TRY(parseEntry(i));
  return Status::ok();
}

Result<TableParser::Entry> TableParser::readEntryHeader(uint64_t index) {
  const bool dense = source.kind == DecodeTableKind::dmix;
  if (left() < 4 * kind.headerWords + (dense ? 4 : 0))
    return bad(fmt::format("ends inside entry {} (header)", index));
  Entry entry;
  entry.layer = word();
  if (dense) {
    entry.surface = word();
    const uint32_t type = word();
    entry.slices = word();
    entry.books = word();
    entry.levels = word();
    const std::optional<WeightFormat> format = weightFormatFromId(type);
    if (!format || !isAdaptive(*format))
      return bad(fmt::format("entry {} has type {}, expected 105 or 106", index,
                             type));
    entry.format = *format;
  } else {
    if (source.kind == DecodeTableKind::gumix) {
      entry.surface = word();
      entry.format = q2_1_rocmfp2_mix;
    }
    entry.experts = word();
    entry.out = word();
    entry.in = word();
    entry.books = word();
    entry.levels = word();
  }

  const uint64_t levels = weightFormatInfo(entry.format).bookLevels;
  if (entry.books != 2 || entry.levels != levels)
    return bad(fmt::format("entry {} has {} books of {} levels, expected 2 of "
                           "{}",
                           index, entry.books, entry.levels, levels));
  const uint64_t surfaces = dense ? kClasses.size() : kSurfaces.size();
  if (entry.surface >= surfaces)
    return bad(fmt::format("entry {} has surface {}, expected 0 to {}", index,
                           entry.surface, surfaces - 1));
  if (entry.slices < 1 || entry.slices > kMaxSlices)
    return bad(fmt::format("entry {} has {} slices, expected 1 to {}", index,
                           entry.slices, kMaxSlices));
  if (!dense &&
      (entry.experts < 1 || entry.experts > kMaxExperts || entry.out < 1 ||
       entry.out > kMaxDim || entry.in < 1 || entry.in > kMaxDim))
    return bad(fmt::format("entry {} is for {} x {} x {}; at most {} experts "
                           "and {} rows and columns are possible",
                           index, entry.experts, entry.out, entry.in,
                           kMaxExperts, kMaxDim));

  const char *surface =
      dense ? kClasses[entry.surface] : kSurfaces[entry.surface];
  entry.label = fmt::format("layer {} {}", entry.layer, surface);
  if (entry.layer < layers) {
    const std::string name =
        fmt::format("blk.{}.{}.weight", entry.layer, surface);
    for (const GgufTensor &tensor : tensors)
      if (tensor.name == name)
        entry.tensor = &tensor;
  }
  return entry;
}

Status TableParser::checkAgainstTensor(const Entry &entry) const {
  const std::vector<uint64_t> &dims = entry.tensor->dims;
  if (entry.tensor->format() != entry.format) // dmix only, others skip
    return bad(fmt::format("{} says type {}, tensor \"{}\" is type {}",
                           entry.label, weightFormatInfo(entry.format).typeId,
                           entry.tensor->name, entry.tensor->typeId));
  if (source.kind == DecodeTableKind::dmix) {
    if (dims.size() != 2 || dims[1] % entry.slices != 0)
      return bad(fmt::format("{} cuts \"{}\" into {} slices, which its rows do "
                             "not allow",
                             entry.label, entry.tensor->name, entry.slices));
  } else if (dims.size() != 3 || entry.in != dims[0] || entry.out != dims[1] ||
             entry.experts != dims[2]) {
    return bad(fmt::format("{} says {} x {} x {}, tensor \"{}\" is {}",
                           entry.label, entry.experts, entry.out, entry.in,
                           entry.tensor->name,
                           fmt::join(dims.rbegin(), dims.rend(), " x ")));
  }
  const uint64_t multiple = weightFormatInfo(entry.format).rowMultiple;
  if (dims[0] % multiple != 0)
    return bad(fmt::format("row length {} of \"{}\" is not a multiple of {}",
                           dims[0], entry.tensor->name, multiple));
  if (tables.contains(entry.tensor->name))
    return bad(fmt::format("{} appears twice", entry.label));
  return Status::ok();
}

Status TableParser::readPayload(const Entry &entry, uint64_t rotationBytes) {
  DecodeTable table{entry.format, entry.experts, {}, {}, {}};
  const auto bytes = source.bytes.subspan(offset);
  // dmix has one mode and three bytes of padding.
  const uint64_t modeBytes =
      source.kind == DecodeTableKind::dmix ? 4 : entry.experts;
  const auto rotations = bytes.subspan(modeBytes, rotationBytes);
  const auto bf16 = bytes.subspan(modeBytes + rotationBytes);
  for (uint64_t e = 0; e < entry.experts; ++e) {
    if (bytes[e] > 1)
      return bad(fmt::format("{} expert {}: mode {} is not supported",
                             entry.label, e, bytes[e]));
    const uint8_t rotation = rotations.empty() ? 0 : rotations[e];
    if (rotation > (accepted == Rotations::accept ? 1 : 0))
      return bad(fmt::format("{} expert {}: rotation {} is not supported; use "
                             "a file that was made without rotation{}",
                             entry.label, e, rotation,
                             rotation == 1 ? ", or ds4c --h32=sylvester if its "
                                             "matrix is Sylvester's"
                                           : ""));
    table.adaptive.push_back(bytes[e]);
    table.rotated.push_back(rotation);
    for (uint64_t book = 0; book < 2; ++book) {
      float before = -std::numeric_limits<float>::infinity();
      for (uint64_t level = 0; level < entry.levels; ++level) {
        const uint64_t at = 2 * ((e * 2 + book) * entry.levels + level);
        const float value =
            std::bit_cast<float>(static_cast<uint32_t>(bf16[at]) << 16 |
                                 static_cast<uint32_t>(bf16[at + 1]) << 24);
        if (bytes[e] == 0) {
          table.books.push_back(fixedLevels(entry.format)[level]);
          continue;
        }
        // False for NaN too.
        if (!(value > before && value <= std::numeric_limits<float>::max()))
          return bad(fmt::format("{} expert {}: level {} of book {} is {}; "
                                 "levels must be finite and ascending",
                                 entry.label, e, level, book, value));
        before = value;
        table.books.push_back(value);
      }
    }
  }
  tables.emplace(entry.tensor->name, std::move(table));
  return Status::ok();
}

Status TableParser::parseEntry(uint64_t index) {
  DS4_ASSIGN(const Entry entry, readEntryHeader(index));
  const uint64_t rotationBytes =
      source.kind == DecodeTableKind::p4mix ? entry.experts : 0;
  const uint64_t modeBytes =
      source.kind == DecodeTableKind::dmix ? 4 : entry.experts;
  // At most 65536 * (2 + 32): no overflow.
  const uint64_t payload = modeBytes + rotationBytes + entry.bookBytes();
  // Published files keep entries of tensors that became another type.
  const bool skip = !entry.tensor || (source.kind != DecodeTableKind::dmix &&
                                      entry.tensor->format() != entry.format);
  if (skip && source.kind == DecodeTableKind::dmix)
    return bad(fmt::format("{} has no tensor in the model", entry.label));
  if (!skip)
    DS4_TRY(checkAgainstTensor(entry));
  if (left() < payload)
    return bad(fmt::format("ends inside entry {} (payload)", index));
  if (!skip)
    DS4_TRY(readPayload(entry, rotationBytes));
  offset += payload;
  return Status::ok();
}

/// Bytes of the file beside the GGUF; nothing if there is none.
Result<std::optional<std::vector<uint8_t>>>
readSideFile(const std::filesystem::path &path) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error)
    return std::optional<std::vector<uint8_t>>();
  if (size == 0 || size > kMaxTableBytes)
    return invalidInput(
        fmt::format("decode table {}: has {} bytes, expected 1 byte to 64 MiB",
                    path.string(), size));
  std::ifstream file(path, std::ios::binary);
  std::vector<uint8_t> bytes(size);
  file.read(reinterpret_cast<char *>(bytes.data()),
            static_cast<std::streamsize>(size));
  if (!file)
    return ioError(fmt::format("cannot read {}", path.string()));
  return std::optional(std::move(bytes));
}

} // namespace

/// Greatest magnitude of an int8 level.
constexpr float kMostLevel = 127.0f;

static float largestOf(std::span<const float> levels) {
  float largest = 0;
  for (const float level : levels)
    largest = std::max(largest, std::fabs(level));
  return largest;
}

/// What the levels of two books are multiplied with (docs/formats.md): a scale
/// for both and a power of two for the second.
static std::array<float, 2> scalesOfBooks(std::span<const float> first,
                                          std::span<const float> second) {
  // Levels times UE4M3 times such a power are exact in binary16.
  constexpr int kLeast = -7, kMost = 2;
  // Ascending levels are not all zero.
  const float larger = largestOf(second);
  const float scale =
      std::max(largestOf(first), std::ldexp(larger, -kMost)) / kMostLevel;
  int exponent = kLeast;
  while (exponent < kMost && larger > kMostLevel * std::ldexp(scale, exponent))
    ++exponent;
  return {scale, std::ldexp(1.0f, exponent)};
}

std::vector<uint8_t> DecodeTable::int8Books() const {
  const uint64_t levels = weightFormatInfo(format).bookLevels;
  std::vector<uint8_t> bytes(experts * bookBytes(format, /*int8=*/true));
  uint8_t *out = bytes.data();
  for (uint64_t expert = 0; expert < experts; ++expert) {
    const auto both = std::span(books).subspan(2 * expert * levels, 2 * levels);
    // Fixed levels are integers already.
    const std::array<float, 2> scales =
        adaptive[expert] ? scalesOfBooks(both.first(levels), both.last(levels))
                         : std::array{1.0f, 1.0f};
    for (uint64_t book = 0; book < 2; ++book) {
      const float step = book == 0 ? scales[0] : scales[0] * scales[1];
      for (const float value : both.subspan(book * levels, levels))
        *out++ = static_cast<uint8_t>(static_cast<int8_t>(
            std::clamp(std::nearbyint(value / step), -kMostLevel, kMostLevel)));
      std::memcpy(out, &scales[book], sizeof(float));
      out += sizeof(float);
    }
  }
  return bytes;
}

DecodeTableKind decodeTableKind(const GgufTensor &tensor) {
  if (tensor.dims.size() < 3)
    return DecodeTableKind::dmix;
  return tensor.format() == q3_1_rocmfp3_mix ? DecodeTableKind::p4mix
                                             : DecodeTableKind::gumix;
}

Result<DecodeTables>
parseDecodeTables(std::span<const DecodeTableSource> sources,
                  std::span<const GgufTensor> tensors, uint64_t layers,
                  std::string_view modelPath, Rotations rotations) {
  DecodeTables tables;
  for (const DecodeTableSource &source : sources)
    DS4_TRY(TableParser(source, tensors, layers, rotations, tables).parse());

  for (const GgufTensor &tensor : tensors) {
    if (!isAdaptive(tensor.format()) || tables.contains(tensor.name))
      continue;
    const DecodeTableKind kind = decodeTableKind(tensor);
    for (const DecodeTableSource &source : sources)
      if (source.kind == kind)
        return invalidInput(fmt::format("decode table {}: no entry for \"{}\"",
                                        source.name, tensor.name));
    return invalidInput(fmt::format(
        "\"{}\" is type {}, but neither key {} nor file {}{} exists; the file "
        "cannot be decoded (download it again: the first upload lacked the "
        "tables)",
        tensor.name, tensor.typeId, infoOf(kind).key, modelPath,
        infoOf(kind).suffix));
  }
  return tables;
}

uint32_t FoundDecodeTable::entries() const {
  uint32_t number = 0; // behind eight bytes of magic
  if (bytes.size() >= 12)
    std::memcpy(&number, bytes.data() + 8, sizeof number);
  return number;
}

Result<std::vector<FoundDecodeTable>> findDecodeTables(const Gguf &gguf) {
  std::vector<FoundDecodeTable> tables;
  for (size_t i = 0; i < kKinds.size(); ++i) {
    const auto kind = static_cast<DecodeTableKind>(i);
    if (gguf.find(kKinds[i].key)) {
      Result<std::span<const uint8_t>> bytes = gguf.byteArray(kKinds[i].key);
      if (!bytes || bytes->empty() || bytes->size() > kMaxTableBytes)
        return invalidInput(
            fmt::format("{}: key {} must be a uint8 array of 1 byte to 64 MiB",
                        gguf.path(), kKinds[i].key));
      tables.push_back({kind, std::string(kKinds[i].key),
                        std::vector<uint8_t>(bytes->begin(), bytes->end())});
      continue;
    }
    const std::string path = gguf.path() + std::string(kKinds[i].suffix);
    DS4_ASSIGN(std::optional<std::vector<uint8_t>> bytes, readSideFile(path));
    if (bytes)
      tables.push_back({kind, path, std::move(*bytes)});
  }
  return tables;
}

Result<DecodeTables> readDecodeTables(const Gguf &gguf, Rotations rotations) {
  DS4_ASSIGN(const std::vector<FoundDecodeTable> found, findDecodeTables(gguf));
  std::vector<DecodeTableSource> sources;
  for (const FoundDecodeTable &table : found)
    sources.push_back({table.kind, table.name, table.bytes});
  bool needed = !sources.empty();
  const bool hasDense =
      std::ranges::find(sources, DecodeTableKind::dmix,
                        &DecodeTableSource::kind) != sources.end();
  for (const GgufTensor &tensor : gguf.tensors()) {
    if (!isAdaptive(tensor.format()))
      continue;
    needed = true;
    if (decodeTableKind(tensor) == DecodeTableKind::dmix && !hasDense &&
        gguf.find(kForeignKey))
      return invalidInput(fmt::format(
          "\"{}\" is type {}, and the only table for it is {}, which is for "
          "models of other families; a DeepSeek V4 file needs {}",
          tensor.name, tensor.typeId, kForeignKey,
          infoOf(DecodeTableKind::dmix).key));
  }
  if (!needed)
    return DecodeTables();
  DS4_ASSIGN(const uint64_t layers, gguf.u64("deepseek4.block_count"));
  return parseDecodeTables(sources, gguf.tensors(), layers, gguf.path(),
                           rotations);
}

} // namespace ds4
