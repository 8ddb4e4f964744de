// GgufParser.cpp - reads a GGUF header from a file or from memory and refuses
// what is damaged. Two rules keep that cheap for any input: a size is compared
// with what is left of the file before anything of that size is allocated, and
// all that is kept is charged to one budget, since a sparse file can be as long
// as it likes.
#include "runtime/Gguf.h"
#include "runtime/GgufStream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <numeric>
#include <utf8proc.h>

namespace ds4 {

namespace {

/// What a header may occupy once it is read. The published DeepSeek V4 Flash
/// files need about 20 MiB: 129,280 tokens, 127,741 merges and the tables of
/// types 105 and 106.
constexpr uint64_t kMaxDecodedBytes = uint64_t{60} << 20;

constexpr uint64_t kMaxKeyBytes = 65535; // GGUF specification
constexpr uint64_t kMaxNameBytes = 1024;
constexpr uint32_t kMaxArrayDepth = 4;

/// The shortest entries: key length, key, type, value; name length, name,
/// number of dimensions (none: it has a message of its own), type, offset; an
/// empty string; an empty array.
constexpr uint64_t kMinPairBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 4 + 8;
constexpr uint64_t kMinStringBytes = 8;
constexpr uint64_t kMinArrayBytes = 4 + 8;

} // namespace

/// One run over one header.
class GgufParser {
public:
  GgufParser(GgufStream &stream, uint64_t fileBytes, std::string name)
      : stream(stream) {
    file.name = std::move(name);
    file.sizeOfFile = fileBytes;
  }

  Result<Gguf> run() {
    uint64_t tensors = 0, pairs = 0;
    DS4_TRY(readPreamble(tensors, pairs));
    DS4_TRY(readPairs(pairs));
    DS4_TRY(readAlignment());
    DS4_TRY(readTensors(tensors));
    DS4_TRY(placeTensors());
    return std::move(file);
  }

private:
  Status readPreamble(uint64_t &tensors, uint64_t &pairs);
  Status readPairs(uint64_t count);
  Status readValue(GgufValue &value);
  Status readArray(GgufValue &value, uint32_t depth);
  Status readStrings(std::vector<std::string> &texts, uint64_t count);
  Status readAlignment();
  Status readTensors(uint64_t count);
  Status placeTensors();
  Status refuseOverlap(std::span<const uint32_t> byOffset) const;

  /// The error of what is at `offset`.
  Error fail(uint64_t offset, std::string_view text) const {
    std::string_view between = subject.empty() ? "" : ", ";
    return invalidInput(fmt::format("{}: at byte {}{}{}: {}", file.name, offset,
                                    between, subject, text));
  }

  /// Refuses what is longer than the rest of the file.
  Status need(uint64_t bytes, std::string_view what) const {
    if (bytes <= stream.left())
      return Status::ok();
    const uint64_t at = stream.position();
    if (bytes <= file.sizeOfFile - at)
      return fail(at, fmt::format("{} is beyond the {} bytes of the header "
                                  "that were given",
                                  what, at + stream.left()));
    return fail(at, fmt::format("{} takes {} bytes, but only {} are left: the "
                                "file is truncated or damaged, download it "
                                "again",
                                what, bytes, file.sizeOfFile - at));
  }

  /// Refuses `count` things of at least `each` bytes that cannot be in what is
  /// left of the file.
  Status needCount(uint64_t count, uint64_t each, std::string_view what) const {
    if (count <= stream.left() / each)
      return Status::ok();
    return fail(stream.position(),
                fmt::format("{} {} cannot be in the {} bytes that are left: "
                            "the file is truncated or damaged, download it "
                            "again",
                            count, what, stream.left()));
  }

  /// Charges `count` times `each` bytes of memory to the budget.
  Status charge(uint64_t count, uint64_t each) {
    if (count <= (kMaxDecodedBytes - decodedBytes) / each) {
      decodedBytes += count * each;
      return Status::ok();
    }
    return fail(stream.position(),
                fmt::format("the header would take more than {} MiB of "
                            "memory: the file is damaged or no language model",
                            kMaxDecodedBytes >> 20));
  }

  Status readBytes(void *to, uint64_t bytes, std::string_view what) {
    DS4_TRY(need(bytes, what));
    if (stream.read(to, bytes))
      return Status::ok();
    return ioError(fmt::format(
        "{}: cannot read at byte {}: {}", file.name, stream.position(),
        errno ? std::strerror(errno) : "the file became shorter"));
  }

  template <typename T> Status read(T &to, std::string_view what) {
    return readBytes(&to, sizeof(T), what);
  }

  Status readText(std::string &text, std::string_view what) {
    uint64_t length = 0;
    DS4_TRY(read(length, what));
    DS4_TRY(need(length, what));
    DS4_TRY(charge(length, 1));
    text.resize(length);
    return readBytes(text.data(), length, what);
  }

  /// Reads a key or a tensor name.
  Status readName(std::string &text, uint64_t maxBytes, std::string_view what) {
    const uint64_t offset = stream.position();
    DS4_TRY(readText(text, what));
    if (text.empty())
      return fail(offset, fmt::format("{} is empty", what));
    if (text.size() > maxBytes)
      return fail(offset, fmt::format("{} has {} bytes, more than {}", what,
                                      text.size(), maxBytes));
    auto *bytes = reinterpret_cast<const utf8proc_uint8_t *>(text.data());
    for (size_t i = 0; i < text.size();) {
      utf8proc_int32_t codepoint = 0;
      const utf8proc_ssize_t used = utf8proc_iterate(
          bytes + i, static_cast<utf8proc_ssize_t>(text.size() - i),
          &codepoint);
      if (used <= 0)
        return fail(offset + 8 + i, fmt::format("{} is not UTF-8", what));
      if (codepoint == 0)
        return fail(offset + 8 + i,
                    fmt::format("{} contains a NUL character", what));
      i += used;
    }
    return Status::ok();
  }

  Status readType(GgufType &type) {
    const uint64_t offset = stream.position();
    uint32_t number = 0;
    DS4_TRY(read(number, "the type of a value"));
    if (number > kGgufTypeMax)
      return fail(offset,
                  fmt::format("value type {} is unknown; GGUF has 0 to {}",
                              number, kGgufTypeMax));
    type = static_cast<GgufType>(number);
    return Status::ok();
  }

  /// Refuses bytes of bools other than 0 and 1; they start at `offset`.
  Status checkBools(std::span<const uint8_t> bytes, uint64_t offset) const {
    auto it = std::ranges::find_if(bytes, [](uint8_t b) { return b > 1; });
    if (it == bytes.end())
      return Status::ok();
    return fail(offset + (it - bytes.begin()),
                fmt::format("a bool is {}; only 0 and 1 are allowed", *it));
  }

  GgufStream &stream;
  Gguf file;
  std::string subject; ///< the key or tensor in hand, for messages
  uint64_t decodedBytes = 0;
};

Status GgufParser::readPreamble(uint64_t &tensors, uint64_t &pairs) {
  char magic[4] = {};
  if (stream.left() >= sizeof(magic))
    DS4_TRY(read(magic, "the magic number"));
  if (std::memcmp(magic, "GGUF", sizeof(magic)) != 0)
    return fail(0, stream.position() == 0
                       ? "the file is too short to be a GGUF file"
                       : "the file does not start with GGUF: it is not a "
                         "GGUF file");
  DS4_TRY(read(file.fileVersion, "the version"));
  const uint32_t version = file.fileVersion;
  if (version != 0 && (version & 0xffff) == 0)
    return fail(4, "the file is big endian; only little endian is supported: "
                   "convert it again for this machine");
  if (version == 1)
    return fail(4, "GGUF version 1 is not supported: convert the model again "
                   "with a current converter");
  if (version != 2 && version != 3)
    return fail(4, fmt::format("GGUF version {} is not supported; this build "
                               "reads 2 and 3",
                               version));
  DS4_TRY(read(tensors, "the number of tensors"));
  DS4_TRY(read(pairs, "the number of metadata pairs"));
  DS4_TRY(needCount(tensors, kMinTensorBytes, "tensors"));
  return needCount(pairs, kMinPairBytes, "metadata pairs");
}

/// Sorts indices [0, count) by name into `order`; gives the first index in the
/// file whose name appeared before.
template <typename Name>
static std::optional<uint32_t> sortNames(std::vector<uint32_t> &order,
                                         size_t count, Name nameOf) {
  order.resize(count);
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, [&](uint32_t a, uint32_t b) {
    const int compared = nameOf(a).compare(nameOf(b));
    return compared != 0 ? compared < 0 : a < b;
  });
  std::optional<uint32_t> repeated;
  for (size_t i = 1; i < count; ++i)
    if (nameOf(order[i - 1]) == nameOf(order[i]))
      repeated = std::min(repeated.value_or(order[i]), order[i]);
  return repeated;
}

Status GgufParser::readPairs(uint64_t count) {
  constexpr uint64_t kEach = sizeof(std::string) + sizeof(GgufValue) +
                             sizeof(uint64_t) + sizeof(uint32_t);
  DS4_TRY(charge(count, kEach));
  file.keyTable.reserve(count);
  file.valueTable.reserve(count);
  file.valueOffsets.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    subject = fmt::format("metadata pair {} of {}", i + 1, count);
    file.valueOffsets.push_back(stream.position());
    DS4_TRY(readName(file.keyTable.emplace_back(), kMaxKeyBytes, "the key"));
    subject = fmt::format("metadata key {}", ggufQuoted(file.keyTable.back()));
    DS4_TRY(readValue(file.valueTable.emplace_back()));
  }
  subject.clear();

  auto nameOf = [&](uint32_t i) -> const std::string & {
    return file.keyTable[i];
  };
  if (auto repeated = sortNames(file.keyOrder, count, nameOf))
    return fail(file.valueOffsets[*repeated],
                fmt::format("metadata key {} appears twice",
                            ggufQuoted(file.keyTable[*repeated])));
  return Status::ok();
}

Status GgufParser::readValue(GgufValue &value) {
  GgufType type{};
  DS4_TRY(readType(type));
  if (type == GgufType::array)
    return readArray(value, 1);
  if (type == GgufType::string) {
    std::string text;
    DS4_TRY(readText(text, "the string"));
    value = GgufValue::of(std::move(text));
    return Status::ok();
  }
  const uint64_t offset = stream.position();
  uint64_t bits = 0;
  DS4_TRY(readBytes(&bits, ggufTypeBytes(type), "the value"));
  if (type == GgufType::boolean) {
    const uint8_t byte = bits & 0xff;
    DS4_TRY(checkBools({&byte, 1}, offset));
  }
  value = GgufValue::scalar(type, bits);
  return Status::ok();
}

Status GgufParser::readArray(GgufValue &value, uint32_t depth) {
  if (depth > kMaxArrayDepth)
    return fail(
        stream.position(),
        fmt::format("arrays are nested more than {} deep", kMaxArrayDepth));
  GgufType type{};
  uint64_t count = 0;
  DS4_TRY(readType(type));
  DS4_TRY(read(count, "the length of an array"));

  if (type == GgufType::string) {
    std::vector<std::string> texts;
    DS4_TRY(readStrings(texts, count));
    value = GgufValue::of(std::move(texts));
    return Status::ok();
  }
  if (type == GgufType::array) {
    DS4_TRY(needCount(count, kMinArrayBytes, "arrays"));
    DS4_TRY(charge(count, sizeof(GgufValue)));
    std::vector<GgufValue> inner(count);
    for (GgufValue &element : inner)
      DS4_TRY(readArray(element, depth + 1));
    value = GgufValue::of(std::move(inner));
    return Status::ok();
  }

  const uint32_t each = ggufTypeBytes(type);
  DS4_TRY(needCount(count, each, "array elements"));
  DS4_TRY(charge(count, each));
  const uint64_t offset = stream.position();
  std::vector<uint8_t> packed(count * each);
  DS4_TRY(readBytes(packed.data(), packed.size(), "the array"));
  if (type == GgufType::boolean)
    DS4_TRY(checkBools(packed, offset));
  value = GgufValue::packedArray(type, std::move(packed));
  return Status::ok();
}

Status GgufParser::readStrings(std::vector<std::string> &texts,
                               uint64_t count) {
  DS4_TRY(needCount(count, kMinStringBytes, "strings"));
  DS4_TRY(charge(count, sizeof(std::string)));
  texts.reserve(count);
  for (uint64_t i = 0; i < count; ++i)
    DS4_TRY(readText(texts.emplace_back(), "a string of the array"));
  return Status::ok();
}

Status GgufParser::readAlignment() {
  constexpr std::string_view kKey = "general.alignment";
  file.dataAlignment = kGgufDefaultAlignment;
  const GgufValue *value = file.find(kKey);
  if (!value)
    return Status::ok();
  const uint64_t offset = file.valueOffsets[value - file.valueTable.data()];
  if (value->type() != GgufType::uint32)
    return fail(offset, fmt::format("metadata key '{}' is {}, but it must be "
                                    "u32",
                                    kKey, value->typeText()));
  const uint64_t alignment = value->scalarBits();
  if (!ggufAlignmentIsValid(alignment))
    return fail(offset, fmt::format("{} is {}; powers of two from {} to {} are "
                                    "supported",
                                    kKey, alignment, kGgufMinAlignment,
                                    kGgufMaxAlignment));
  file.dataAlignment = alignment;
  return Status::ok();
}

Status GgufParser::readTensors(uint64_t count) {
  // The second vector of indices sorts the tensors by offset, later.
  constexpr uint64_t kEach = sizeof(GgufTensor) +
                             kGgufMaxDims * sizeof(uint64_t) +
                             2 * sizeof(uint32_t);
  DS4_TRY(needCount(count, kMinTensorBytes, "tensors"));
  DS4_TRY(charge(count, kEach));
  file.tensorTable.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    subject = fmt::format("tensor {} of {}", i + 1, count);
    GgufTensor &tensor = file.tensorTable.emplace_back();
    tensor.headerOffset = stream.position();
    DS4_TRY(readName(tensor.name, kMaxNameBytes, "the name"));
    subject = fmt::format("tensor {}", ggufQuoted(tensor.name));

    uint32_t dims = 0;
    DS4_TRY(read(dims, "the number of dimensions"));
    if (dims > kGgufMaxDims)
      return fail(tensor.headerOffset,
                  fmt::format("it has {} dimensions; ggml allows {}", dims,
                              kGgufMaxDims));
    tensor.dims.resize(dims);
    for (uint64_t &dim : tensor.dims)
      DS4_TRY(read(dim, "a dimension"));
    DS4_TRY(read(tensor.typeId, "the type id"));
    DS4_TRY(read(tensor.fileOffset, "the data offset"));

    Result<uint64_t> bytes =
        ggufTensorBytes(tensor.name, tensor.dims, tensor.typeId);
    if (!bytes) {
      subject.clear(); // the text names the tensor
      return fail(tensor.headerOffset, bytes.error().text);
    }
    tensor.bytes = *bytes;
    if (tensor.fileOffset % file.dataAlignment != 0)
      return fail(tensor.headerOffset,
                  fmt::format("its data offset {} is not a multiple of the "
                              "alignment, {}",
                              tensor.fileOffset, file.dataAlignment));
  }
  subject.clear();

  auto nameOf = [&](uint32_t i) -> const std::string & {
    return file.tensorTable[i].name;
  };
  if (auto repeated = sortNames(file.tensorOrder, count, nameOf))
    return fail(file.tensorTable[*repeated].headerOffset,
                fmt::format("tensor {} appears twice",
                            ggufQuoted(file.tensorTable[*repeated].name)));
  return Status::ok();
}

/// Turns offsets into the data into offsets into the file.
Status GgufParser::placeTensors() {
  const uint64_t headerEnd = stream.position();
  const uint64_t padding = -headerEnd & (file.dataAlignment - 1);
  file.dataStart = headerEnd + padding;

  const GgufTensor *last = nullptr;
  for (GgufTensor &tensor : file.tensorTable) {
    uint64_t end = 0;
    if (__builtin_add_overflow(tensor.fileOffset, file.dataStart,
                               &tensor.fileOffset) ||
        __builtin_add_overflow(tensor.fileOffset, tensor.bytes, &end))
      return fail(tensor.headerOffset,
                  fmt::format("tensor {}: the end of its data does not fit 64 "
                              "bits",
                              ggufQuoted(tensor.name)));
    if (!last || end > last->fileOffset + last->bytes)
      last = &tensor;
  }

  std::vector<uint32_t> byOffset(file.tensorTable.size());
  std::iota(byOffset.begin(), byOffset.end(), 0u);
  std::ranges::sort(byOffset, [&](uint32_t a, uint32_t b) {
    const uint64_t at = file.tensorTable[a].fileOffset;
    const uint64_t bt = file.tensorTable[b].fileOffset;
    return at != bt ? at < bt : a < b;
  });
  DS4_TRY(refuseOverlap(byOffset));

  if (last) {
    const uint64_t end = last->fileOffset + last->bytes;
    if (end > file.sizeOfFile)
      return fail(last->headerOffset,
                  fmt::format("the data of tensor {} ends at byte {}, {} bytes "
                              "past the end of the file: the file is "
                              "truncated, download it again",
                              ggufQuoted(last->name), end,
                              end - file.sizeOfFile));
    DS4_TRY(readBytes(nullptr, padding, "the padding before the data"));
  } else if (stream.left() >= padding) {
    DS4_TRY(readBytes(nullptr, padding, "the padding before the data"));
  }
  file.headerHash = stream.digest();
  return Status::ok();
}

/// `byOffset`: all tensors, ascending by offset.
Status GgufParser::refuseOverlap(std::span<const uint32_t> byOffset) const {
  for (size_t i = 1; i < byOffset.size(); ++i) {
    const GgufTensor &tensor = file.tensorTable[byOffset[i - 1]];
    const GgufTensor &next = file.tensorTable[byOffset[i]];
    const uint64_t room = next.fileOffset - tensor.fileOffset;
    const bool overlaps = tensor.bytes > room;
    // Other forks use the private ids for blocks of another size; a hole
    // behind such a tensor gives them away as an overlap does.
    const bool isPrivate = tensor.typeId >= kGgufFirstPrivateId;
    if (!overlaps && !(isPrivate && room - tensor.bytes >= file.dataAlignment))
      continue;
    std::string text = fmt::format(
        "tensor {}: expected {} bytes, but the next tensor, {}, starts after "
        "{}",
        ggufQuoted(tensor.name), tensor.bytes, ggufQuoted(next.name), room);
    text += isPrivate ? fmt::format(": type id {} is private and means another "
                                    "format in the fork that wrote this file",
                                    tensor.typeId)
                      : ": they overlap, the file is damaged";
    return fail(tensor.headerOffset, text);
  }
  return Status::ok();
}

Result<Gguf> Gguf::parse(std::span<const std::byte> header, uint64_t fileBytes,
                         std::string name) {
  GgufStream stream(header.first(std::min<uint64_t>(header.size(), fileBytes)));
  return GgufParser(stream, fileBytes, std::move(name)).run();
}

Result<Gguf> Gguf::open(const std::filesystem::path &path) {
  DS4_ASSIGN(GgufStream stream, GgufStream::open(path));
  const uint64_t fileBytes = stream.left();
  return GgufParser(stream, fileBytes, path.string()).run();
}

} // namespace ds4
