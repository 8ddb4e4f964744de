// GgufValue.cpp - conversions of metadata values. Numbers stay packed as in the
// file, so that a table of a few hundred kB costs no more than it has.
#include "runtime/GgufValue.h"

#include <cassert>
#include <fmt/format.h>
#include <limits>
#include <utility>

namespace ds4 {

namespace {
struct TypeFacts {
  std::string_view name;
  uint32_t bytes; // of a scalar; 0: no scalar
  bool integer;
  bool isSigned;
};

// By number in the file.
constexpr TypeFacts kTypes[] = {
    {"u8", 1, true, false},      {"i8", 1, true, true},
    {"u16", 2, true, false},     {"i16", 2, true, true},
    {"u32", 4, true, false},     {"i32", 4, true, true},
    {"f32", 4, false, false},    {"bool", 1, false, false},
    {"string", 0, false, false}, {"array", 0, false, false},
    {"u64", 8, true, false},     {"i64", 8, true, true},
    {"f64", 8, false, false},
};
static_assert(std::size(kTypes) == kGgufTypeMax + 1);

const TypeFacts &factsOf(GgufType type) {
  assert(static_cast<uint32_t>(type) <= kGgufTypeMax && "unknown GGUF type");
  return kTypes[static_cast<uint32_t>(type)];
}

int64_t signExtended(uint64_t bits, uint32_t bytes) {
  const unsigned shift = 64 - 8 * bytes;
  return static_cast<int64_t>(bits << shift) >> shift;
}
} // namespace

std::string_view ggufTypeName(GgufType type) { return factsOf(type).name; }

uint32_t ggufTypeBytes(GgufType type) { return factsOf(type).bytes; }

bool ggufTypeIsInteger(GgufType type) { return factsOf(type).integer; }

GgufValue GgufValue::of(std::string value) {
  GgufValue result;
  result.tag = GgufType::string;
  result.data = std::move(value);
  return result;
}

GgufValue GgufValue::of(std::vector<std::string> values) {
  GgufValue result;
  result.tag = GgufType::array;
  result.element = GgufType::string;
  result.data = std::move(values);
  return result;
}

GgufValue GgufValue::of(std::vector<GgufValue> arrays) {
  GgufValue result;
  result.tag = GgufType::array;
  result.element = GgufType::array;
  result.data = std::move(arrays);
  return result;
}

GgufValue GgufValue::scalar(GgufType type, uint64_t bits) {
  assert(ggufTypeBytes(type) != 0 && "not a scalar type");
  GgufValue result;
  result.tag = type;
  result.data = bits;
  return result;
}

GgufValue GgufValue::packedArray(GgufType elementType,
                                 std::vector<uint8_t> packed) {
  assert(ggufTypeBytes(elementType) != 0 && "not a scalar type");
  assert(packed.size() % ggufTypeBytes(elementType) == 0);
  GgufValue result;
  result.tag = GgufType::array;
  result.element = elementType;
  result.data = std::move(packed);
  return result;
}

uint64_t GgufValue::size() const {
  if (auto *packed = std::get_if<std::vector<uint8_t>>(&data))
    return packed->size() / ggufTypeBytes(element);
  if (auto *texts = std::get_if<std::vector<std::string>>(&data))
    return texts->size();
  if (auto *values = std::get_if<std::vector<GgufValue>>(&data))
    return values->size();
  return 1;
}

std::optional<uint64_t> GgufValue::asU64() const {
  const TypeFacts &facts = factsOf(tag);
  if (!facts.integer)
    return std::nullopt;
  if (!facts.isSigned)
    return scalarBits();
  const int64_t value = signExtended(scalarBits(), facts.bytes);
  if (value < 0)
    return std::nullopt;
  return static_cast<uint64_t>(value);
}

std::optional<int64_t> GgufValue::asI64() const {
  const TypeFacts &facts = factsOf(tag);
  if (!facts.integer)
    return std::nullopt;
  if (facts.isSigned)
    return signExtended(scalarBits(), facts.bytes);
  if (!std::in_range<int64_t>(scalarBits()))
    return std::nullopt;
  return static_cast<int64_t>(scalarBits());
}

std::optional<double> GgufValue::asF64() const {
  if (tag == GgufType::float32)
    return std::bit_cast<float>(static_cast<uint32_t>(scalarBits()));
  if (tag == GgufType::float64)
    return std::bit_cast<double>(scalarBits());
  if (auto value = asI64())
    return static_cast<double>(*value);
  if (auto value = asU64())
    return static_cast<double>(*value);
  return std::nullopt;
}

std::optional<bool> GgufValue::asBool() const {
  if (tag != GgufType::boolean)
    return std::nullopt;
  return scalarBits() != 0;
}

const std::string *GgufValue::asString() const {
  return std::get_if<std::string>(&data);
}

GgufValue GgufValue::at(uint64_t index) const {
  assert(index < size() && "element beyond the array");
  if (auto *packed = std::get_if<std::vector<uint8_t>>(&data)) {
    const uint32_t bytes = ggufTypeBytes(element);
    uint64_t bits = 0;
    std::memcpy(&bits, packed->data() + index * bytes, bytes);
    return scalar(element, bits);
  }
  if (auto *texts = std::get_if<std::vector<std::string>>(&data))
    return of((*texts)[index]);
  if (auto *values = std::get_if<std::vector<GgufValue>>(&data))
    return (*values)[index];
  return *this;
}

std::optional<std::span<const std::string>> GgufValue::strings() const {
  if (auto *texts = std::get_if<std::vector<std::string>>(&data))
    return *texts;
  return std::nullopt;
}

std::optional<std::span<const GgufValue>> GgufValue::arrays() const {
  if (auto *values = std::get_if<std::vector<GgufValue>>(&data))
    return *values;
  return std::nullopt;
}

std::optional<std::span<const uint8_t>> GgufValue::bytes() const {
  return isArray() && element == GgufType::uint8 ? packed() : std::nullopt;
}

std::optional<std::span<const uint8_t>> GgufValue::packed() const {
  if (auto *bytes = std::get_if<std::vector<uint8_t>>(&data))
    return *bytes;
  return std::nullopt;
}

std::optional<std::vector<int64_t>> GgufValue::ints() const {
  if (!ggufTypeIsInteger(elementType()))
    return std::nullopt;
  std::vector<int64_t> values;
  values.reserve(size());
  for (uint64_t i = 0; i < size(); ++i) {
    std::optional<int64_t> value = at(i).asI64();
    if (!value)
      return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

std::optional<std::vector<double>> GgufValue::floats() const {
  const GgufType type = elementType();
  if (type != GgufType::float32 && type != GgufType::float64 &&
      !ggufTypeIsInteger(type))
    return std::nullopt;
  std::vector<double> values;
  values.reserve(size());
  for (uint64_t i = 0; i < size(); ++i)
    values.push_back(*at(i).asF64());
  return values;
}

uint64_t GgufValue::scalarBits() const {
  auto *bits = std::get_if<uint64_t>(&data);
  return bits ? *bits : 0;
}

std::string GgufValue::typeText() const {
  if (isArray())
    return fmt::format("array of {}", ggufTypeName(element));
  return std::string(ggufTypeName(tag));
}

} // namespace ds4
