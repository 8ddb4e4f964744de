// GgufBytes.h - builds GGUF headers for tests, byte by byte and without any
// check: most of what it builds is meant to be refused.
#ifndef DS4_RUNTIME_TEST_GGUFBYTES_H
#define DS4_RUNTIME_TEST_GGUFBYTES_H

#include "runtime/Gguf.h"

#include <algorithm>
#include <initializer_list>

namespace ds4 {

class GgufBytes {
public:
  uint32_t version = 3;
  uint64_t alignment = 32; ///< of the data start; the key is not written
  uint64_t extraPairs = 0, extraTensors = 0; ///< added to the true counts

  /// Appends bytes to the metadata, or to the table once it was begun.
  GgufBytes &raw(const void *from, size_t bytes) {
    auto *begin = static_cast<const std::byte *>(from);
    std::vector<std::byte> &to = tensors != 0 ? table : metadata;
    to.insert(to.end(), begin, begin + bytes);
    return *this;
  }
  template <typename T> GgufBytes &put(T value) {
    return raw(&value, sizeof(T));
  }
  GgufBytes &text(std::string_view value) {
    put<uint64_t>(value.size());
    return raw(value.data(), value.size());
  }
  /// Begins a pair; its value follows by put(), text() or array().
  GgufBytes &pair(std::string_view key, GgufType type) {
    ++pairs;
    text(key);
    return put(type);
  }
  /// Begins an array; its elements follow.
  GgufBytes &array(GgufType elementType, uint64_t count) {
    put(elementType);
    return put(count);
  }
  GgufBytes &tensor(std::string_view name, std::vector<uint64_t> dims,
                    uint32_t typeId, uint64_t offset) {
    ++tensors;
    text(name);
    put<uint32_t>(dims.size());
    for (uint64_t dim : dims)
      put(dim);
    put(typeId);
    put(offset);
    if (Result<uint64_t> bytes = ggufTensorBytes(name, dims, typeId))
      dataBytes = std::max(dataBytes, offset + *bytes);
    return *this;
  }
  GgufBytes &tensor(std::string_view name, std::vector<uint64_t> dims,
                    WeightFormat format, uint64_t offset) {
    return tensor(name, std::move(dims), static_cast<uint32_t>(format), offset);
  }

  /// The header without padding and data.
  std::vector<std::byte> header() const {
    std::vector<std::byte> bytes;
    auto append = [&](const void *from, size_t count) {
      auto *begin = static_cast<const std::byte *>(from);
      bytes.insert(bytes.end(), begin, begin + count);
    };
    const uint64_t counts[] = {tensors + extraTensors, pairs + extraPairs};
    append("GGUF", 4);
    append(&version, sizeof(version));
    append(counts, sizeof(counts));
    append(metadata.data(), metadata.size());
    append(table.data(), table.size());
    return bytes;
  }

  /// The whole file; the data are zeros.
  std::vector<std::byte> image() const {
    std::vector<std::byte> bytes = header();
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment +
                 dataBytes);
    return bytes;
  }

  /// What the reader says about image().
  Result<Gguf> parse() const {
    std::vector<std::byte> bytes = image();
    return Gguf::parse(bytes, bytes.size(), "test.gguf");
  }

private:
  std::vector<std::byte> metadata, table;
  uint64_t pairs = 0, tensors = 0, dataBytes = 0;
};

} // namespace ds4

#endif // DS4_RUNTIME_TEST_GGUFBYTES_H
