// DecodeTables.h - learned codebooks of the adaptive formats (types 105 and
// 106), which lie outside their tensors: in metadata, or in a file beside the
// GGUF (docs/formats.md). Nothing here reads tensor data.
#ifndef DS4_RUNTIME_DECODETABLES_H
#define DS4_RUNTIME_DECODETABLES_H

#include "runtime/Gguf.h"

#include <map>

namespace ds4 {

/// How to decode one adaptive tensor.
struct DecodeTable {
  WeightFormat format;
  uint64_t experts = 1; ///< 1 for a dense matrix
  /// f32 [experts, 2, levels], ascending. An expert that is not adaptive has
  /// the fixed levels of the format's plain sibling in both books.
  std::vector<float> books;
  /// [experts]: 0 for fixed levels; then all eight bits of a scale byte are
  /// scale, so that bytes above 0x7e are invalid.
  std::vector<uint8_t> adaptive;
  /// [experts]: 1 if the columns of the expert's matrix were multiplied by a
  /// 32-wide Hadamard matrix (ds4.rotate).
  std::vector<uint8_t> rotated;

  /// The int8 form of the books, [experts, 2, levels + 4] bytes (ds4.books).
  std::vector<uint8_t> int8Books() const;
};

/// By the name of the weight.
using DecodeTables = std::map<std::string, DecodeTable, std::less<>>;

/// The three layouts: down experts of type 105; gate, up and down experts of
/// type 106; dense attention matrices.
enum class DecodeTableKind { p4mix, gumix, dmix };

/// Which of them describes `tensor`, which must be of type 105 or 106.
DecodeTableKind decodeTableKind(const GgufTensor &tensor);

/// A table as it was found, not yet parsed.
struct FoundDecodeTable {
  DecodeTableKind kind;
  std::string name; ///< metadata key or path, for messages
  std::vector<uint8_t> bytes;

  /// Number of entries that its header declares; 0 if it is too short.
  uint32_t entries() const;
};

/// The tables that a file brings, in its metadata or beside it, at most one of
/// a kind. Errors: one that is empty, too large or not of bytes.
Result<std::vector<FoundDecodeTable>> findDecodeTables(const Gguf &gguf);

/// What to do with rotated experts: no public text defines their matrix.
enum class Rotations { refuse, accept };

/// Tables of all adaptive tensors of the file. Errors: a table that is needed
/// but neither in the metadata nor beside the file; a malformed table; an
/// entry that contradicts its tensor; a tensor without an entry; rotated
/// experts unless they are accepted.
Result<DecodeTables> readDecodeTables(const Gguf &gguf,
                                      Rotations rotations = Rotations::refuse);

/// A table and where it was found.
struct DecodeTableSource {
  DecodeTableKind kind;
  std::string name; ///< metadata key or path, for messages
  std::span<const uint8_t> bytes;
};

/// The same from parts: a model's tensors and layers, at most one table of a
/// kind. `modelPath` is for messages.
Result<DecodeTables>
parseDecodeTables(std::span<const DecodeTableSource> sources,
                  std::span<const GgufTensor> tensors, uint64_t layers,
                  std::string_view modelPath,
                  Rotations rotations = Rotations::refuse);

} // namespace ds4

#endif // DS4_RUNTIME_DECODETABLES_H
