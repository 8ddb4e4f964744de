// SavedLogits.cpp - the layout, little endian:
//
//   char magic[8], u32 version
//   u32 vocab, u32 tokens a chunk, u32 chunks, u32 bytes of the model's name
//   char fingerprint[32], char tokenizer[32], the name
//   i32 ids[chunks][tokens], u64 hash of all before
//   rows: f32 least logit, f32 step, f64 loss, u32 best, u16 code[vocab], two
//   bytes of zeros if vocab is odd, u64 hash of the row
//
// logit = least + step * code; unlike llama.cpp's form nothing is cut off
// below, since a cut takes probability away.
#include "runtime/SavedLogits.h"

#include "runtime/BundleFormat.h"
#include "runtime/Gguf.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

namespace ds4 {
namespace {

constexpr uint32_t kVersion = 1;
constexpr uint32_t kMaxName = 4096, kMaxVocab = 1 << 24;
constexpr size_t kHashDigits = 32;
constexpr float kCodes = 65535;

class Bytes {
public:
  std::vector<std::byte> all;

  void raw(const void *from, size_t count) {
    const auto *begin = static_cast<const std::byte *>(from);
    all.insert(all.end(), begin, begin + count);
  }
  template <typename T> void put(T value) { raw(&value, sizeof value); }
  void seal() { put<uint64_t>(XXH3_64bits(all.data(), all.size())); }
};

/// The fixed part of a row; its codes follow.
struct RowHead {
  float least, step;
  double loss;
  uint32_t best;
};
constexpr uint64_t kRowHeadBytes = 20;

uint64_t codeBytes(uint32_t vocab) { return (uint64_t(vocab) + 1) / 2 * 4; }

uint64_t rowBytes(uint32_t vocab) {
  return kRowHeadBytes + codeBytes(vocab) + sizeof(uint64_t);
}

/// Whether the last eight bytes are the hash of the others.
bool sealHolds(std::span<const std::byte> bytes) {
  uint64_t seal;
  std::memcpy(&seal, &bytes[bytes.size() - sizeof seal], sizeof seal);
  return seal == XXH3_64bits(bytes.data(), bytes.size() - sizeof seal);
}

/// Takes numbers and texts from the front of a file.
class HeaderReader {
public:
  explicit HeaderReader(std::ifstream &file) : file(file) {}

  template <typename T> T take() {
    T value{};
    raw(&value, sizeof value);
    return value;
  }
  std::string text(size_t size) {
    std::string value(size, '\0');
    raw(value.data(), size);
    return value;
  }
  void raw(void *to, size_t count) {
    file.read(static_cast<char *>(to), static_cast<std::streamsize>(count));
    seen.raw(to, count);
  }

  Bytes seen;

private:
  std::ifstream &file;
};

} // namespace

Result<std::string> tokenizerHash(const Gguf &file) {
  std::string all;
  for (const char *key : {"tokenizer.ggml.tokens", "tokenizer.ggml.merges"}) {
    DS4_ASSIGN(const auto texts, file.stringArray(key));
    all += fmt::format("{} {}\n", key, texts.size());
    for (const std::string &text : texts)
      all += fmt::format("{} {}\n", text.size(), text);
  }
  return contentHash(all);
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

SavedLogitsWriter::SavedLogitsWriter(TemporaryFile file, uint32_t vocab,
                                     uint64_t rows)
    : file(std::move(file)), vocab(vocab), left(rows) {}

Result<SavedLogitsWriter>
SavedLogitsWriter::create(const std::filesystem::path &path,
                          const SavedLogitsInfo &info) {
  DS4_ASSIGN(TemporaryFile file, TemporaryFile::create(path));
  const std::string name = info.model.substr(0, kMaxName);
  Bytes header;
  header.raw(kSavedLogitsMagic.data(), kSavedLogitsMagic.size());
  header.put(kVersion);
  header.put(info.vocab);
  header.put(info.chunks.length);
  header.put(static_cast<uint32_t>(info.chunks.size()));
  header.put(static_cast<uint32_t>(name.size()));
  for (const std::string *hash : {&info.fingerprint, &info.tokenizer}) {
    std::string digits = *hash;
    digits.resize(kHashDigits, ' ');
    header.raw(digits.data(), digits.size());
  }
  header.raw(name.data(), name.size());
  header.raw(info.chunks.ids.data(), info.chunks.ids.size() * sizeof(TokenId));
  header.seal();
  DS4_TRY(file.append(header.all));
  return SavedLogitsWriter(std::move(file), info.vocab, info.rows());
}

Status SavedLogitsWriter::add(std::span<const float> logits, double loss) {
  assert(logits.size() == vocab && left > 0);
  const auto [least, most] = std::ranges::minmax_element(logits);
  if (!std::isfinite(*most - *least) ||
      std::ranges::any_of(logits, [](float x) { return std::isnan(x); }))
    return invalidInput("a logit is not finite and cannot be saved");
  RowHead head{
      *least, (*most - *least) / kCodes, loss,
      static_cast<uint32_t>(std::ranges::max_element(logits) - logits.begin())};
  Bytes row;
  row.all.reserve(rowBytes(vocab));
  row.put(head.least);
  row.put(head.step);
  row.put(head.loss);
  row.put(head.best);
  for (float logit : logits) {
    const float code =
        head.step > 0 ? std::nearbyint((logit - head.least) / head.step) : 0;
    row.put(static_cast<uint16_t>(std::clamp(code, 0.0f, kCodes)));
  }
  if (vocab % 2)
    row.put<uint16_t>(0);
  row.seal();
  --left;
  return file.append(row.all);
}

Status SavedLogitsWriter::finish() {
  assert(left == 0);
  return file.commit();
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

SavedLogitsReader::SavedLogitsReader(std::ifstream file, std::string path,
                                     SavedLogitsInfo header,
                                     uint64_t rowsOffset)
    : file(std::move(file)), path(std::move(path)), header(std::move(header)),
      rowsOffset(rowsOffset) {}

Result<SavedLogitsReader> SavedLogitsReader::open(const std::string &path) {
  std::error_code code;
  const uint64_t fileBytes = std::filesystem::file_size(path, code);
  std::ifstream file(path, std::ios::binary);
  if (code || !file)
    return ioError(fmt::format("cannot read {}", path));
  const auto refuse = [&path](std::string_view text) {
    return invalidInput(fmt::format("{}: {}: save the logits again with ds4run "
                                    "eval --save-logits",
                                    path, text));
  };

  HeaderReader in(file);
  if (in.text(kSavedLogitsMagic.size()) != kSavedLogitsMagic)
    return refuse("these are no saved logits");
  if (const uint32_t version = in.take<uint32_t>(); file && version != kVersion)
    return refuse(fmt::format("they have version {}, this program reads {}",
                              version, kVersion));
  SavedLogitsInfo info;
  info.vocab = in.take<uint32_t>();
  info.chunks.length = in.take<uint32_t>();
  const uint64_t chunks = in.take<uint32_t>();
  const uint32_t nameBytes = in.take<uint32_t>();
  if (!file)
    return refuse("the file ends inside its header");
  // Before anything is allocated: a damaged size must not ask for gigabytes.
  if (info.vocab < 1 || info.vocab > kMaxVocab || info.chunks.length < 2 ||
      chunks < 1 || chunks * info.chunks.length > fileBytes / sizeof(TokenId) ||
      nameBytes > kMaxName)
    return refuse(fmt::format("the header is damaged: {} chunks of {} tokens, "
                              "{} logits a row",
                              chunks, info.chunks.length, info.vocab));
  info.fingerprint = in.text(kHashDigits);
  info.tokenizer = in.text(kHashDigits);
  info.model = in.text(nameBytes);
  info.chunks.ids.resize(chunks * info.chunks.length);
  in.raw(info.chunks.ids.data(), info.chunks.ids.size() * sizeof(TokenId));
  in.take<uint64_t>(); // the hash
  if (!file)
    return refuse("the file ends inside its header");
  if (!sealHolds(in.seen.all))
    return refuse("the header is damaged");
  const uint64_t start = in.seen.all.size();
  const uint64_t expected = start + info.rows() * rowBytes(info.vocab);
  if (fileBytes != expected)
    return refuse(fmt::format("the file has {} bytes where its header promises "
                              "{}",
                              fileBytes, expected));
  return SavedLogitsReader(std::move(file), path, std::move(info), start);
}

Status SavedLogitsReader::check(std::string_view tokenizer,
                                const TextChunks &chunks) const {
  const auto differs = [this](std::string text) {
    return invalidInput(fmt::format("{} holds logits of model {} {}", path,
                                    ggufQuoted(header.model), text));
  };
  if (tokenizer != header.tokenizer)
    return differs(
        "with another vocabulary: models with other tokens cannot be "
        "compared");
  const TextChunks &theirs = header.chunks;
  if (chunks.length != theirs.length)
    return differs(
        fmt::format("over chunks of {} tokens, here they have {}: use "
                    "--chunk-size={}",
                    theirs.length, chunks.length, theirs.length));
  const size_t both = std::min(chunks.ids.size(), theirs.ids.size());
  const auto [ours, other] = std::mismatch(
      chunks.ids.begin(), chunks.ids.begin() + both, theirs.ids.begin());
  if (ours != chunks.ids.begin() + both)
    return differs(fmt::format(
        "over another text: token {} of the chunks is {}, here it is {}",
        ours - chunks.ids.begin(), *other, *ours));
  if (chunks.size() > theirs.size())
    return differs(
        fmt::format("over {} chunks, the text has {}: use --chunks={}, "
                    "or save more",
                    theirs.size(), chunks.size(), theirs.size()));
  return Status::ok();
}

Result<SavedRow> SavedLogitsReader::next() {
  const auto damaged = [this] {
    return invalidInput(fmt::format(
        "{}: row {} of saved logits at byte {} is damaged: save them again",
        path, row, rowsOffset + row * rowBytes(header.vocab)));
  };
  std::vector<std::byte> bytes(rowBytes(header.vocab));
  file.read(reinterpret_cast<char *>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  if (!file || !sealHolds(bytes))
    return damaged();
  RowHead head;
  std::memcpy(&head.least, &bytes[0], 4);
  std::memcpy(&head.step, &bytes[4], 4);
  std::memcpy(&head.loss, &bytes[8], 8);
  std::memcpy(&head.best, &bytes[16], 4);
  if (head.best >= header.vocab)
    return damaged();
  SavedRow result;
  result.best = head.best;
  result.loss = head.loss;
  result.logits.resize(header.vocab);
  for (uint32_t i = 0; i < header.vocab; ++i) {
    uint16_t code;
    std::memcpy(&code, &bytes[kRowHeadBytes + 2 * uint64_t(i)], sizeof code);
    result.logits[i] = head.least + head.step * static_cast<float>(code);
  }
  ++row;
  return result;
}

} // namespace ds4
