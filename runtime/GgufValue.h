// GgufValue.h - one metadata value of a GGUF file: a scalar, a string or an
// array. It knows types and conversions; it knows no key and no file, so that
// messages which name them are made by Gguf.
#ifndef DS4_RUNTIME_GGUFVALUE_H
#define DS4_RUNTIME_GGUFVALUE_H

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ds4 {

static_assert(std::endian::native == std::endian::little,
              "GGUF numbers are kept as they are in the file");

/// Type of a metadata value; the number is the one in the file.
enum class GgufType : uint32_t {
  uint8 = 0,
  int8 = 1,
  uint16 = 2,
  int16 = 3,
  uint32 = 4,
  int32 = 5,
  float32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  uint64 = 10,
  int64 = 11,
  float64 = 12,
};

/// The largest number in GgufType.
inline constexpr uint32_t kGgufTypeMax = 12;

/// Name as GGUF tools print it: "u8", "f32", "bool", "string", "array".
std::string_view ggufTypeName(GgufType type);

/// Bytes of a scalar in the file; 0 for strings and arrays.
uint32_t ggufTypeBytes(GgufType type);

/// Whether `type` is one of the eight integer types; bool is none.
bool ggufTypeIsInteger(GgufType type);

/// The GGUF type of a C++ scalar.
template <typename T> constexpr GgufType ggufTypeOf() {
  if constexpr (std::same_as<T, bool>)
    return GgufType::boolean;
  else if constexpr (std::same_as<T, float>)
    return GgufType::float32;
  else if constexpr (std::same_as<T, double>)
    return GgufType::float64;
  else if constexpr (sizeof(T) == 1)
    return std::signed_integral<T> ? GgufType::int8 : GgufType::uint8;
  else if constexpr (sizeof(T) == 2)
    return std::signed_integral<T> ? GgufType::int16 : GgufType::uint16;
  else if constexpr (sizeof(T) == 4)
    return std::signed_integral<T> ? GgufType::int32 : GgufType::uint32;
  else
    return std::signed_integral<T> ? GgufType::int64 : GgufType::uint64;
}

template <typename T>
concept GgufScalar =
    std::integral<T> || std::same_as<T, float> || std::same_as<T, double>;

/// A metadata value. Numbers keep the bits and the width that they have in the
/// file; equality compares type and bits.
class GgufValue {
public:
  GgufValue() = default; // u8 0

  /// A scalar of T's width, e.g. of(uint32_t{32}), of(1e-6f), of(true).
  template <GgufScalar T> static GgufValue of(T value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    return scalar(ggufTypeOf<T>(), bits);
  }
  static GgufValue of(std::string value);
  static GgufValue of(const char *value) { return of(std::string(value)); }
  static GgufValue of(std::vector<std::string> values);
  /// An array of scalars, e.g. of(std::vector<int32_t>{0, 4, 128}).
  template <GgufScalar T>
    requires(!std::same_as<T, bool>)
  static GgufValue of(const std::vector<T> &values) {
    std::vector<uint8_t> packed(values.size() * sizeof(T));
    if (!packed.empty())
      std::memcpy(packed.data(), values.data(), packed.size());
    return packedArray(ggufTypeOf<T>(), std::move(packed));
  }
  /// An array of arrays.
  static GgufValue of(std::vector<GgufValue> arrays);
  /// A scalar from its bits; those above the type's width are zero.
  static GgufValue scalar(GgufType type, uint64_t bits);
  /// An array of scalars from its bytes in the file.
  static GgufValue packedArray(GgufType elementType,
                               std::vector<uint8_t> packed);

  GgufType type() const { return tag; }
  bool isArray() const { return tag == GgufType::array; }
  /// Type of an array's elements; of a scalar, its own type.
  GgufType elementType() const { return isArray() ? element : tag; }
  /// Elements of an array; 1 for anything else.
  uint64_t size() const;

  /// Any integer type, where the value fits; no bool.
  std::optional<uint64_t> asU64() const;
  std::optional<int64_t> asI64() const;
  /// f32, f64, and any integer type (rounded to nearest above 2^53).
  std::optional<double> asF64() const;
  std::optional<bool> asBool() const;
  /// The text, or null. Not necessarily UTF-8. Lives as long as the value.
  const std::string *asString() const;

  /// Element `index` (< size()) of an array; of a scalar, the value itself.
  GgufValue at(uint64_t index) const;

  /// Array views; nullopt for another type. They live as long as the value.
  std::optional<std::span<const std::string>> strings() const;
  std::optional<std::span<const GgufValue>> arrays() const;
  std::optional<std::span<const uint8_t>> bytes() const; ///< u8 only
  /// Array copies; nullopt if an element is not what asI64/asF64 accept.
  /// A scalar counts as an array of one.
  std::optional<std::vector<int64_t>> ints() const;
  std::optional<std::vector<double>> floats() const;

  /// The numbers of an array of scalars as they are in the file.
  std::optional<std::span<const uint8_t>> packed() const;
  /// The bits of a scalar, zero extended; 0 for strings and arrays.
  uint64_t scalarBits() const;

  /// "u32", "array of string": for messages.
  std::string typeText() const;

  bool operator==(const GgufValue &other) const = default;

private:
  GgufType tag = GgufType::uint8;
  GgufType element = GgufType::uint8; ///< of arrays; else unused
  std::variant<uint64_t, std::string, std::vector<uint8_t>,
               std::vector<std::string>, std::vector<GgufValue>>
      data;
};

} // namespace ds4

#endif // DS4_RUNTIME_GGUFVALUE_H
