// Unit.h - one emitted kernel as text, ready to be compiled.
#ifndef DS4_CODEGEN_UNIT_H
#define DS4_CODEGEN_UNIT_H

#include <string>

namespace ds4::codegen {

/// A kernel specialised by constants. The symbol is KERNEL_HASH8 and is also
/// the unit's name; the text includes device files by their path in ops/.
struct Unit {
  std::string symbol;
  std::string text;
};

} // namespace ds4::codegen

#endif // DS4_CODEGEN_UNIT_H
