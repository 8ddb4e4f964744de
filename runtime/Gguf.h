// Gguf.h - the header of a GGUF file: metadata and tensor table, checked.
// Tensor data is never read here; whoever loads weights reads it at
// GgufTensor::fileOffset.
#ifndef DS4_RUNTIME_GGUF_H
#define DS4_RUNTIME_GGUF_H

#include "runtime/GgufValue.h"
#include "runtime/Result.h"
#include "runtime/WeightFormats.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ds4 {

inline constexpr uint32_t kGgufMaxDims = 4;           ///< as ggml
inline constexpr uint64_t kGgufDefaultAlignment = 32; ///< as ggml
inline constexpr uint64_t kGgufMinAlignment = 8;      ///< of general.alignment
inline constexpr uint64_t kGgufMaxAlignment = 65536;  ///< of general.alignment
/// Type ids from here on are in no ggml release: forks give them different
/// meanings.
inline constexpr uint32_t kGgufFirstPrivateId = 100;

/// A power of two from kGgufMinAlignment to kGgufMaxAlignment.
constexpr bool ggufAlignmentIsValid(uint64_t alignment) {
  return std::has_single_bit(alignment) && alignment >= kGgufMinAlignment &&
         alignment <= kGgufMaxAlignment;
}

/// One entry of the tensor table.
struct GgufTensor {
  std::string name;
  std::vector<uint64_t> dims; ///< 1 to 4, ggml order: fastest first; none is 0
  uint32_t typeId = 0;        ///< always one that weightFormatFromId knows
  uint64_t fileOffset = 0;    ///< of the data, from the start of the file
  uint64_t bytes = 0;         ///< of the data
  uint64_t headerOffset = 0;  ///< of this entry, for messages
  /// Of a type id with several readings: the one chosen (Gguf::readFp2As).
  std::optional<WeightFormat> reading = {};

  WeightFormat format() const;
  uint64_t elements() const; ///< product of dims
  uint64_t rows() const;     ///< elements / dims[0]

  bool operator==(const GgufTensor &other) const = default;
};

/// Bytes of a tensor. The error names the tensor, but neither file nor offset:
/// no, too many or zero dimensions, an unknown type id, a row length that the
/// format does not allow, or a size that wraps 64 bits.
Result<uint64_t> ggufTensorBytes(std::string_view name,
                                 std::span<const uint64_t> dims,
                                 uint32_t typeId);

/// `text` in quotes for a message: control characters escaped, cut after 80
/// bytes. `text` comes from a file and may be anything.
std::string ggufQuoted(std::string_view text);

/// The header of a GGUF file, version 2 or 3, little endian. What it holds has
/// been checked: names and keys are unique, not empty, UTF-8 without NUL;
/// tensors are aligned, do not overlap and end within the file.
class Gguf {
public:
  /// Reads and checks the header of `path`; keeps neither a mapping nor a
  /// descriptor. Errors name file, byte offset and what to do.
  static Result<Gguf> open(const std::filesystem::path &path);

  /// The same from memory: `header` begins a file of `fileBytes` bytes and
  /// should reach the data; `name` stands for the path in messages.
  static Result<Gguf> parse(std::span<const std::byte> header,
                            uint64_t fileBytes, std::string name);

  /// As given to open() or parse().
  const std::string &path() const { return name; }
  uint32_t version() const { return fileVersion; }
  uint64_t fileBytes() const { return sizeOfFile; }
  uint64_t dataOffset() const { return dataStart; }
  uint64_t alignment() const { return dataAlignment; }

  /// XXH3-128 of bytes [0, dataOffset) as 32 hex digits: changes with any
  /// metadata, name, shape, type or place of a tensor; not with weights.
  const std::string &fingerprint() const { return headerHash; }

  /// In the order of the file.
  std::span<const GgufTensor> tensors() const { return tensorTable; }
  /// Null if there is none of this name. O(log n).
  const GgufTensor *findTensor(std::string_view tensorName) const;

  /// From now on tensors of type 107 are read like this.
  void readFp2As(Fp2Reading reading);

  /// Metadata keys in the order of the file.
  std::span<const std::string> keys() const { return keyTable; }
  /// Null if the key is absent. O(log n).
  const GgufValue *find(std::string_view key) const;

  /// Values by key. Absent: an error with key and expected type. Another type,
  /// or a value that does not fit: an error with both types. Views live as
  /// long as this object.
  Result<uint64_t> u64(std::string_view key) const;
  Result<int64_t> i64(std::string_view key) const;
  Result<double> f64(std::string_view key) const;
  Result<bool> boolean(std::string_view key) const;
  Result<std::string> string(std::string_view key) const;
  /// A scalar counts as an array of one; any width.
  Result<std::vector<int64_t>> intArray(std::string_view key) const;
  Result<std::vector<double>> floatArray(std::string_view key) const;
  Result<std::span<const std::string>> stringArray(std::string_view key) const;
  /// u8 only.
  Result<std::span<const uint8_t>> byteArray(std::string_view key) const;

  /// The same where the key is optional: absent gives the default, another
  /// type is still an error.
  Result<uint64_t> u64Or(std::string_view key, uint64_t otherwise) const;
  Result<int64_t> i64Or(std::string_view key, int64_t otherwise) const;
  Result<double> f64Or(std::string_view key, double otherwise) const;
  Result<bool> booleanOr(std::string_view key, bool otherwise) const;
  Result<std::string> stringOr(std::string_view key,
                               std::string otherwise) const;
  Result<std::vector<int64_t>> intArrayOr(std::string_view key,
                                          std::vector<int64_t> otherwise) const;
  Result<std::vector<double>> floatArrayOr(std::string_view key,
                                           std::vector<double> otherwise) const;

private:
  friend class GgufParser;
  Gguf() = default;

  /// The error of a getter.
  Error missing(std::string_view key, std::string_view expected) const;
  Error mismatch(std::string_view key, const GgufValue &value,
                 std::string_view expected) const;

  std::string name;
  uint32_t fileVersion = 0;
  uint64_t sizeOfFile = 0;
  uint64_t dataStart = 0;
  uint64_t dataAlignment = 0;
  std::string headerHash;
  std::vector<std::string> keyTable;
  std::vector<GgufValue> valueTable;   ///< [keys]
  std::vector<uint64_t> valueOffsets;  ///< [keys], in the header
  std::vector<GgufTensor> tensorTable; ///< [tensors]
  std::vector<uint32_t> keyOrder;      ///< indices, ascending by key
  std::vector<uint32_t> tensorOrder;   ///< indices, ascending by name
};

} // namespace ds4

#endif // DS4_RUNTIME_GGUF_H
