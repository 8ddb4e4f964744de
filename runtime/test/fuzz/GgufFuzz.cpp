// GgufFuzz.cpp - any bytes as a GGUF header: refused with a message, or
// accepted and then consistent. Built as a libFuzzer target, and into the unit
// tests, where the corpus is replayed.
#include "runtime/GgufWriter.h"

#include <cstdio>
#include <cstdlib>

using namespace ds4;

#define DS4_FUZZ_REQUIRE(condition)                                            \
  do {                                                                         \
    if (!(condition)) {                                                        \
      std::fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__,          \
                   #condition);                                                \
      std::abort();                                                            \
    }                                                                          \
  } while (false)

/// Asks for `key` as every type; exactly the fitting ones may succeed.
static void readEveryWay(const Gguf &file, const std::string &key) {
  const GgufValue *value = file.find(key);
  DS4_FUZZ_REQUIRE(value);
  const GgufType type = value->type();
  const bool integer = ggufTypeIsInteger(type);
  if (auto number = file.u64(key))
    DS4_FUZZ_REQUIRE(integer && *number == *value->asU64());
  if (auto number = file.i64(key))
    DS4_FUZZ_REQUIRE(integer && *number == *value->asI64());
  DS4_FUZZ_REQUIRE(!integer || file.u64(key) || file.i64(key));
  DS4_FUZZ_REQUIRE(
      bool(file.f64(key)) ==
      (integer || type == GgufType::float32 || type == GgufType::float64));
  DS4_FUZZ_REQUIRE(bool(file.boolean(key)) == (type == GgufType::boolean));
  DS4_FUZZ_REQUIRE(bool(file.string(key)) == (type == GgufType::string));
  if (auto numbers = file.intArray(key))
    DS4_FUZZ_REQUIRE(numbers->size() == value->size());
  if (auto numbers = file.floatArray(key))
    DS4_FUZZ_REQUIRE(numbers->size() == value->size());
  if (auto strings = file.stringArray(key))
    DS4_FUZZ_REQUIRE(strings->size() == value->size());
  if (auto bytes = file.byteArray(key))
    DS4_FUZZ_REQUIRE(bytes->size() == value->size());
  if (value->size() != 0)
    DS4_FUZZ_REQUIRE(!value->at(value->size() - 1).typeText().empty());
}

static void checkTensors(const Gguf &file) {
  for (const GgufTensor &tensor : file.tensors()) {
    DS4_FUZZ_REQUIRE(file.findTensor(tensor.name) == &tensor);
    DS4_FUZZ_REQUIRE(tensor.fileOffset >= file.dataOffset());
    DS4_FUZZ_REQUIRE(tensor.fileOffset <= file.fileBytes());
    DS4_FUZZ_REQUIRE(tensor.bytes != 0);
    DS4_FUZZ_REQUIRE(tensor.bytes <= file.fileBytes() - tensor.fileOffset);
    DS4_FUZZ_REQUIRE(tensor.fileOffset % file.alignment() ==
                     file.dataOffset() % file.alignment());
    DS4_FUZZ_REQUIRE(tensor.rows() *
                         weightRowBytes(tensor.format(), tensor.dims[0]) ==
                     tensor.bytes);
  }
}

/// What was read can be written, and reads as the same again.
static void checkCopy(const Gguf &file) {
  GgufWriter writer;
  writer.copyMetadata(file);
  for (const GgufTensor &tensor : file.tensors())
    DS4_FUZZ_REQUIRE(
        writer.declareTensor(tensor.name, tensor.dims, tensor.format()));
  Result<std::vector<std::byte>> header = writer.header();
  DS4_FUZZ_REQUIRE(header);
  Result<Gguf> copy = Gguf::parse(*header, *writer.fileBytes(), "copy");
  DS4_FUZZ_REQUIRE(copy);
  DS4_FUZZ_REQUIRE(copy->keys().size() == file.keys().size());
  for (const std::string &key : file.keys())
    DS4_FUZZ_REQUIRE(*copy->find(key) == *file.find(key));
  DS4_FUZZ_REQUIRE(copy->tensors().size() == file.tensors().size());
  for (const GgufTensor &tensor : file.tensors()) {
    const GgufTensor *same = copy->findTensor(tensor.name);
    DS4_FUZZ_REQUIRE(same && same->dims == tensor.dims &&
                     same->typeId == tensor.typeId &&
                     same->bytes == tensor.bytes);
  }
}

static void parseAndCheck(std::span<const std::byte> header,
                          uint64_t fileBytes) {
  Result<Gguf> file = Gguf::parse(header, fileBytes, "fuzz");
  if (!file) {
    DS4_FUZZ_REQUIRE(file.error().text.starts_with("fuzz: at byte "));
    return;
  }
  for (const std::string &key : file->keys())
    readEveryWay(*file, key);
  checkTensors(*file);
  checkCopy(*file);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  std::span<const std::byte> header = std::as_bytes(std::span(data, bytes));
  // A whole file, then the start of a large one.
  parseAndCheck(header, bytes);
  parseAndCheck(header, bytes + (uint64_t{1} << 40));
  return 0;
}
