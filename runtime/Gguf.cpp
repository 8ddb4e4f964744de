// Gguf.cpp - look-ups and typed getters over a parsed header, and the size of a
// tensor. Reading and checking the file is in GgufParser.cpp.
#include "runtime/Gguf.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ds4 {

WeightFormat GgufTensor::format() const {
  // The parser lets no other id through.
  return reading ? *reading : *weightFormatFromId(typeId);
}

uint64_t GgufTensor::elements() const {
  uint64_t product = 1;
  for (uint64_t dim : dims)
    product *= dim;
  return product;
}

uint64_t GgufTensor::rows() const { return elements() / dims.front(); }

std::string ggufQuoted(std::string_view text) {
  constexpr size_t kMaxShown = 80;
  std::string shown = "'";
  for (unsigned char c : text.substr(0, kMaxShown)) {
    if (c < 0x20 || c == 0x7f)
      shown += fmt::format("\\x{:02x}", c);
    else
      shown += static_cast<char>(c);
  }
  return shown + (text.size() > kMaxShown ? "...'" : "'");
}

Result<uint64_t> ggufTensorBytes(std::string_view name,
                                 std::span<const uint64_t> dims,
                                 uint32_t typeId) {
  auto refuse = [&](std::string_view text) {
    return invalidInput(fmt::format("tensor {}: {}", ggufQuoted(name), text));
  };
  if (dims.empty())
    return refuse("it has no dimensions");
  if (dims.size() > kGgufMaxDims)
    return refuse(fmt::format("it has {} dimensions; ggml allows {}",
                              dims.size(), kGgufMaxDims));
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] == 0)
      return refuse(fmt::format("dimension {} is 0", i));

  std::optional<WeightFormat> format = weightFormatFromId(typeId);
  if (!format)
    return refuse(fmt::format(
        "it uses ggml type {}, which this build does not know{}", typeId,
        typeId < kGgufFirstPrivateId
            ? ": quantise the model to a supported format"
            : "; ids from 100 on are private to forks of llama.cpp, which give "
              "them different meanings: use a file made for ROCmFPX"));
  const WeightFormatInfo &info = weightFormatInfo(*format);
  if (dims[0] % info.rowMultiple != 0)
    return refuse(fmt::format("row length {} is not a multiple of {}, as {} "
                              "needs",
                              dims[0], info.rowMultiple, info.name));

  uint64_t bytes = 0;
  bool wraps = __builtin_mul_overflow(dims[0] / info.blockElements,
                                      uint64_t{info.blockBytes}, &bytes);
  uint64_t elements = dims[0];
  for (uint64_t dim : dims.subspan(1)) {
    wraps |= __builtin_mul_overflow(bytes, dim, &bytes);
    wraps |= __builtin_mul_overflow(elements, dim, &elements);
  }
  if (wraps)
    return refuse(fmt::format("its size, {} of {}, does not fit 64 bits",
                              fmt::join(dims, " x "), info.name));
  return bytes;
}

/// Index into `names` by binary search over `order`, or nothing.
template <typename Name>
static std::optional<uint32_t> findSorted(const std::vector<uint32_t> &order,
                                          std::string_view wanted,
                                          Name nameOf) {
  auto less = [&](uint32_t index, std::string_view text) {
    return nameOf(index) < text;
  };
  auto it = std::lower_bound(order.begin(), order.end(), wanted, less);
  if (it == order.end() || nameOf(*it) != wanted)
    return std::nullopt;
  return *it;
}

void Gguf::readFp2As(Fp2Reading reading) {
  const uint32_t id = weightFormatInfo(WeightFormat::q2_0_rocmfp2).typeId;
  for (GgufTensor &tensor : tensorTable)
    if (tensor.typeId == id)
      tensor.reading = fp2Format(reading);
}

const GgufTensor *Gguf::findTensor(std::string_view tensorName) const {
  auto nameOf = [&](uint32_t i) -> std::string_view {
    return tensorTable[i].name;
  };
  auto index = findSorted(tensorOrder, tensorName, nameOf);
  return index ? &tensorTable[*index] : nullptr;
}

const GgufValue *Gguf::find(std::string_view key) const {
  auto nameOf = [&](uint32_t i) -> std::string_view { return keyTable[i]; };
  auto index = findSorted(keyOrder, key, nameOf);
  return index ? &valueTable[*index] : nullptr;
}

Error Gguf::missing(std::string_view key, std::string_view expected) const {
  return invalidInput(fmt::format("{}: metadata key {} is missing; {} is "
                                  "required",
                                  name, ggufQuoted(key), expected));
}

Error Gguf::mismatch(std::string_view key, const GgufValue &value,
                     std::string_view expected) const {
  std::string found = value.typeText();
  // A number of the right kind that does not fit is shown.
  if (ggufTypeIsInteger(value.type())) {
    if (auto number = value.asI64())
      found += fmt::format(" {}", *number);
    else if (auto big = value.asU64())
      found += fmt::format(" {}", *big);
  }
  const uint64_t offset = valueOffsets[&value - valueTable.data()];
  return invalidInput(fmt::format("{}: metadata key {} at byte {} is {}, but "
                                  "{} is required",
                                  name, ggufQuoted(key), offset, found,
                                  expected));
}

Result<uint64_t> Gguf::u64(std::string_view key) const {
  constexpr std::string_view kExpected = "a non-negative integer";
  const GgufValue *value = find(key);
  if (!value)
    return missing(key, kExpected);
  if (auto number = value->asU64())
    return *number;
  return mismatch(key, *value, kExpected);
}

Result<int64_t> Gguf::i64(std::string_view key) const {
  constexpr std::string_view kExpected = "a signed 64-bit integer";
  const GgufValue *value = find(key);
  if (!value)
    return missing(key, kExpected);
  if (auto number = value->asI64())
    return *number;
  return mismatch(key, *value, kExpected);
}

Result<double> Gguf::f64(std::string_view key) const {
  constexpr std::string_view kExpected = "a number";
  const GgufValue *value = find(key);
  if (!value)
    return missing(key, kExpected);
  if (auto number = value->asF64())
    return *number;
  return mismatch(key, *value, kExpected);
}

Result<bool> Gguf::boolean(std::string_view key) const {
  constexpr std::string_view kExpected = "bool";
  const GgufValue *value = find(key);
  if (!value)
    return missing(key, kExpected);
  if (auto truth = value->asBool())
    return *truth;
  return mismatch(key, *value, kExpected);
}

Result<std::string> Gguf::string(std::string_view key) const {
  constexpr std::string_view kExpected = "a string";
  const GgufValue *value = find(key);
  if (!value)
    return missing(key, kExpected);
  if (const std::string *text = value->asString())
    return *text;
  return mismatch(key, *value, kExpected);
}

Result<std::vector<int64_t>> Gguf::intArray(std::string_view key) const {
  constexpr std::string_view kExpected =
      "an integer or an array of integers below 2^63";
  const GgufValue *value = find(key);
  if (!value)
    return missing(key, kExpected);
  if (auto numbers = value->ints())
    return std::move(*numbers);
  return mismatch(key, *value, kExpected);
}

Result<std::vector<double>> Gguf::floatArray(std::string_view key) const {
  constexpr std::string_view kExpected = "a number or an array of numbers";
  const GgufValue *value = find(key);
  if (!value)
    return missing(key, kExpected);
  if (auto numbers = value->floats())
    return std::move(*numbers);
  return mismatch(key, *value, kExpected);
}

Result<std::span<const std::string>>
Gguf::stringArray(std::string_view key) const {
  constexpr std::string_view kExpected = "an array of string";
  const GgufValue *value = find(key);
  if (!value)
    return missing(key, kExpected);
  if (auto texts = value->strings())
    return *texts;
  return mismatch(key, *value, kExpected);
}

Result<std::span<const uint8_t>> Gguf::byteArray(std::string_view key) const {
  constexpr std::string_view kExpected = "an array of u8";
  const GgufValue *value = find(key);
  if (!value)
    return missing(key, kExpected);
  if (auto bytes = value->bytes())
    return *bytes;
  return mismatch(key, *value, kExpected);
}

Result<uint64_t> Gguf::u64Or(std::string_view key, uint64_t otherwise) const {
  return find(key) ? u64(key) : otherwise;
}

Result<int64_t> Gguf::i64Or(std::string_view key, int64_t otherwise) const {
  return find(key) ? i64(key) : otherwise;
}

Result<double> Gguf::f64Or(std::string_view key, double otherwise) const {
  return find(key) ? f64(key) : otherwise;
}

Result<bool> Gguf::booleanOr(std::string_view key, bool otherwise) const {
  return find(key) ? boolean(key) : otherwise;
}

Result<std::string> Gguf::stringOr(std::string_view key,
                                   std::string otherwise) const {
  if (!find(key))
    return otherwise;
  return string(key);
}

Result<std::vector<int64_t>>
Gguf::intArrayOr(std::string_view key, std::vector<int64_t> otherwise) const {
  if (!find(key))
    return otherwise;
  return intArray(key);
}

Result<std::vector<double>>
Gguf::floatArrayOr(std::string_view key, std::vector<double> otherwise) const {
  if (!find(key))
    return otherwise;
  return floatArray(key);
}

} // namespace ds4
