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
    Result<uint64_t> bytes = ggufTensorBytes(name, dims, typeId);
    if (bytes && *bytes < kMaxData && offset < kMaxData)
      dataBytes = std::max(dataBytes, offset + *bytes);
    return *this;
  }
  GgufBytes &tensor(std::string_view name, std::vector<uint64_t> dims,
                    WeightFormat format, uint64_t offset) {
    return tensor(name, std::move(dims), weightFormatInfo(format).typeId,
                  offset);
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

  /// Data beyond this are not part of image().
  static constexpr uint64_t kMaxData = 1 << 20;

  /// What the reader says about image().
  Result<Gguf> parse() const {
    std::vector<std::byte> bytes = image();
    return Gguf::parse(bytes, bytes.size(), "test.gguf");
  }

private:
  std::vector<std::byte> metadata, table;
  uint64_t pairs = 0, tensors = 0, dataBytes = 0;
};

/// Two tensors and a value of every type.
inline GgufBytes ggufOfEveryType() {
  GgufBytes file;
  file.pair("a.u8", GgufType::uint8).put(uint8_t{200});
  file.pair("a.i8", GgufType::int8).put(int8_t{-3});
  file.pair("a.u16", GgufType::uint16).put(uint16_t{60000});
  file.pair("a.i16", GgufType::int16).put(int16_t{-300});
  file.pair("a.u32", GgufType::uint32).put(uint32_t{4000000000u});
  file.pair("a.i32", GgufType::int32).put(int32_t{-70000});
  file.pair("a.u64", GgufType::uint64).put(UINT64_MAX);
  file.pair("a.i64", GgufType::int64).put(INT64_MIN);
  file.pair("a.f32", GgufType::float32).put(1e-6f);
  file.pair("a.f64", GgufType::float64).put(0.1);
  file.pair("a.bool", GgufType::boolean).put(uint8_t{1});
  file.pair("a.string", GgufType::string).text("deepseek4");
  file.pair("b.strings", GgufType::array)
      .array(GgufType::string, 3)
      .text("\xc4\xa0the")
      .text("")
      .text("a string that is longer than any inline buffer");
  file.pair("b.ints", GgufType::array)
      .array(GgufType::int32, 3)
      .put(int32_t{0})
      .put(int32_t{-4})
      .put(int32_t{128});
  file.pair("b.floats", GgufType::array)
      .array(GgufType::float32, 2)
      .put(10.0f)
      .put(2.5f);
  file.pair("b.bytes", GgufType::array)
      .array(GgufType::uint8, 3)
      .put(uint8_t{1})
      .put(uint8_t{0})
      .put(uint8_t{255});
  file.pair("b.empty", GgufType::array).array(GgufType::string, 0);
  file.pair("b.nested", GgufType::array)
      .array(GgufType::array, 2)
      .array(GgufType::uint16, 1)
      .put(uint16_t{7})
      .array(GgufType::string, 1)
      .text("x");
  file.tensor("w", {64, 3}, WeightFormat::q8_0, 0);
  file.tensor("norm.weight", {5}, WeightFormat::f32, 224);
  return file;
}

} // namespace ds4

#endif // DS4_RUNTIME_TEST_GGUFBYTES_H
