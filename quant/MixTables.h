// MixTables.h - the codebooks of a file in the layouts that DecodeTables.h
// reads back: p4mix for down experts of type 105, gumix for experts of type
// 106.
#ifndef DS4_QUANT_MIXTABLES_H
#define DS4_QUANT_MIXTABLES_H

#include "quant/Encoders.h"
#include "runtime/GgufWriter.h"

#include <vector>

namespace ds4::quant {

class MixTables {
public:
  /// Whether a table can hold books for this tensor. Error: it is none of
  /// blk.N.ffn_{gate,up,down}_exps.weight, or gate or up in type 105.
  Status check(const GgufTensor &tensor, WeightFormat format) const;
  /// Adds the books [experts, 2, levels] of a tensor that passed check().
  void add(const GgufTensor &tensor, WeightFormat format, Floats books);
  /// Sets the keys of the tables that have entries.
  void write(GgufWriter &writer) const;

private:
  struct Table {
    uint32_t entries = 0;
    std::vector<uint8_t> bytes;
  };
  Table p4mix, gumix;
};

} // namespace ds4::quant

#endif // DS4_QUANT_MIXTABLES_H
