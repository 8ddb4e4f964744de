// MixTables.h - the codebooks of a file in the layouts that DecodeTables.h
// reads back: p4mix for down experts of type 105, gumix for experts of type
// 106, dmix for attention matrices.
#ifndef DS4_QUANT_MIXTABLES_H
#define DS4_QUANT_MIXTABLES_H

#include "quant/Encoders.h"
#include "runtime/GgufWriter.h"

#include <vector>

namespace ds4::quant {

class MixTables {
public:
  /// `outputGroups`: of attn_output_a, whose rows dmix cuts as the model does.
  explicit MixTables(uint32_t outputGroups) : outputGroups(outputGroups) {}

  /// Whether a table can hold books for this tensor. Error: it is none of
  /// blk.N.ffn_{gate,up,down}_exps.weight and blk.N.attn_{q_a,q_b,kv,output_a,
  /// output_b}.weight, gate or up in type 105, or output_a whose rows are no
  /// multiple of the groups.
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
  Table &tableOf(const GgufTensor &tensor, WeightFormat format);

  uint32_t outputGroups;
  Table p4mix, gumix, dmix;
};

} // namespace ds4::quant

#endif // DS4_QUANT_MIXTABLES_H
